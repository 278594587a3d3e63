// If this finds something, a broken or hostile peer on a frame connection crashes a worker or a raylet.
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/rpc/tcp_channel.h"
#include "runtime/rpc/tls_pump.h"
#include "runtime/worker/call_body.h"
#include "tests/fuzz/seeds.h"

namespace {

std::string frame(rayo::rpc::FrameKind kind, uint16_t flags, std::string_view body) {
  rayo::rpc::FrameHeader header;
  header.kind = kind;
  header.flags = flags;
  header.length = static_cast<uint32_t>(body.size());
  std::string bytes(sizeof header, '\0');
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes.append(body);
}

// Touches every byte that it is given, so that ASan sees one that is not there.
size_t sum(std::span<const std::byte> bytes) {
  size_t total = 0;
  for (std::byte one : bytes) total += static_cast<size_t>(one);
  return total;
}

}  // namespace

std::vector<std::string> rayo::fuzz::seeds() {
  worker::BodyWriter body;
  const ObjectId ids[] = {{1, 2, 3}, {4, 5, 6}};
  const ActorId actors[] = {{7, 8}};
  const std::byte value[] = {std::byte{0xf6}};
  const worker::InlineValue values[] = {{1, value}};
  body.refs(ids, 2);
  body.actors(actors);
  body.values(values);
  std::string sections(reinterpret_cast<const char*>(body.bytes().data()), body.bytes().size());
  return {frame(rpc::FrameKind::kControl, 0, "\x0a\x02hi"),
          frame(rpc::FrameKind::kCall, body.flags(), sections + "\x80"),
          frame(rpc::FrameKind::kReply, 0, "x") + frame(rpc::FrameKind::kCancel, 0, "")};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rayo;
  int ends[2];
  if (size > 60'000 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return 0;
  base::Fd writer(ends[1]);
  rpc::SocketChannel channel(base::Fd(ends[0]), nullptr);
  if (write(writer.get(), data, size) != static_cast<ssize_t>(size)) return 0;
  writer.reset();
  size_t given = 0;
  auto reader = [&](const rpc::FrameHeader& header, rpc::Bytes body, std::vector<base::Fd>&) {
    fuzz::expect(rpc::check_header(header) && header.length == body.size());
    given += sizeof header + body.size();
    auto view = worker::read_body(header.flags, body);
    if (!view) return;
    size_t total = sum(view->rest);
    for (const worker::InlineValue& value : view->values) total += sum(value.bytes);
    fuzz::expect(view->refs.size() * sizeof(ObjectId) <= body.size() && total <= 255 * body.size());
  };
  for (int turn = 0; turn < 64 && channel.on_readable(reader).ok(); ++turn) continue;
  fuzz::expect(given <= size);
  return 0;
}
