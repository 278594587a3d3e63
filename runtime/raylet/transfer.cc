#include "runtime/raylet/transfer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <vector>

#include "object_store/arena.h"
#include "runtime/base/address.h"
#include "runtime/base/loop/blocking.h"
#include "runtime/base/open_files.h"
#include "runtime/base/text.h"
#include "runtime/raylet/transfer_link.h"
#include "runtime/rpc/dial.h"
#include "runtime/rpc/frame.h"

namespace rayo::raylet {
namespace {

constexpr int kThreads = 4;         // transfers at a time in each direction; more wait their turn
constexpr size_t kPiece = 1 << 20;  // of the copy from socket to arena: fits the cache
constexpr base::Duration kDial = std::chrono::seconds(5);

std::span<const std::byte> bytes_of(const auto& value) { return std::as_bytes(std::span(&value, 1)); }

base::Status write_failure(TransferLink& link, const proto::Failure& failure) {
  std::string body = failure.SerializeAsString();
  rpc::FrameHeader header;
  header.kind = rpc::FrameKind::kPullReply;
  header.flags = rpc::kFlagFailure;
  header.length = static_cast<uint32_t>(body.size());
  RAYO_RETURN_IF_ERROR(link.write(bytes_of(header)));
  return link.write(std::as_bytes(std::span(body.data(), body.size())));
}

base::StatusOr<ObjectId> read_request(TransferLink& link) {
  RAYO_RETURN_IF_ERROR(link.shake_hands(base::deadline_after(base::system_clock().now(), rpc::kHandshakeLimit)));
  rpc::FrameHeader header;
  RAYO_RETURN_IF_ERROR(link.read_exact(std::as_writable_bytes(std::span(&header, 1))));
  ObjectId object;
  if (!rpc::check_header(header) || header.kind != rpc::FrameKind::kPull || header.length != sizeof object) {
    return base::failed(absl::StatusCode::kInvalidArgument, "a data connection that does not begin with a pull");
  }
  RAYO_RETURN_IF_ERROR(link.read_exact(std::as_writable_bytes(std::span(&object, 1))));
  return object;
}

base::StatusOr<std::optional<proto::Failure>> read_reply(TransferLink& link, int64_t size_bytes) {
  rpc::FrameHeader header;
  RAYO_RETURN_IF_ERROR(link.read_exact(std::as_writable_bytes(std::span(&header, 1))));
  if (!rpc::check_header(header) || header.kind != rpc::FrameKind::kPullReply) {
    return base::failed(absl::StatusCode::kInvalidArgument, "the holder's answer is no answer to a pull");
  }
  if (header.flags & rpc::kFlagFailure) {
    std::string body(header.length, '\0');
    RAYO_RETURN_IF_ERROR(link.read_exact(std::as_writable_bytes(std::span(body.data(), body.size()))));
    proto::Failure failure;
    if (!failure.ParseFromString(body))
      return base::failed(absl::StatusCode::kInvalidArgument, "the holder's failure cannot be read");
    return std::optional(failure);
  }
  if (header.call_id != static_cast<uint64_t>(size_bytes)) {
    return base::failed(absl::StatusCode::kDataLoss,
                        base::cat("the holder has ", header.call_id, " bytes, its home says ", size_bytes));
  }
  return std::optional<proto::Failure>();
}

base::Status receive_into(TransferLink& link, int arena_fd, int64_t offset, int64_t left) {
  std::vector<std::byte> piece(std::min<size_t>(kPiece, static_cast<size_t>(left)));
  while (left > 0) {
    auto room = std::span(piece).first(std::min<size_t>(piece.size(), static_cast<size_t>(left)));
    RAYO_ASSIGN_OR_RETURN(size_t got, link.read_some(room));
    for (size_t done = 0; done < got;) {
      ssize_t written = pwrite(arena_fd, piece.data() + done, got - done, offset);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return base::failed_errno(errno, "writing a pulled object into the arena");
      done += static_cast<size_t>(written);
      offset += written;
    }
    left -= static_cast<int64_t>(got);
  }
  return base::Status();
}

// Dials, asks, receives. A failure that the holder told comes as a value, all else as a status.
base::StatusOr<std::optional<proto::Failure>> run_pull(const Transfer::Pull& pull, const rpc::LinkKeys& keys,
                                                       int arena_fd) {
  RAYO_ASSIGN_OR_RETURN(base::HostPort address, base::parse_host_port(pull.holder));
  RAYO_ASSIGN_OR_RETURN(base::Fd fd, rpc::dial(address, base::deadline_after(base::system_clock().now(), kDial)));
  rpc::DataHeader hello = rpc::make_data_header(rpc::LinkKind::kData, pull.tls, {}, keys);
  TransferLink clear(base::Fd(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0)), std::nullopt, Transfer::kStall);
  rpc::DataHeaderBytes hello_bytes = rpc::encode(hello);
  RAYO_RETURN_IF_ERROR(clear.write(std::as_bytes(std::span(hello_bytes))));
  std::optional<rpc::TlsPump> tls;
  if (pull.tls) tls = rpc::TlsPump::client(keys.tls_key(hello.nonce));
  TransferLink link(std::move(fd), std::move(tls), Transfer::kStall);
  rpc::FrameHeader request;
  request.kind = rpc::FrameKind::kPull;
  request.length = sizeof(ObjectId);
  std::array<std::byte, sizeof request + sizeof(ObjectId)> message;
  std::memcpy(message.data(), &request, sizeof request);
  std::memcpy(message.data() + sizeof request, &pull.object, sizeof pull.object);
  RAYO_RETURN_IF_ERROR(link.write(message));
  RAYO_ASSIGN_OR_RETURN(std::optional<proto::Failure> failure, read_reply(link, pull.size_bytes));
  if (!failure) RAYO_RETURN_IF_ERROR(receive_into(link, arena_fd, pull.offset, pull.size_bytes));
  return failure;
}

}  // namespace

struct Transfer::State {
  State(base::Loop& loop, const rpc::Secret& secret)
      : loop(loop),
        keys(rpc::LinkKeys::of_data(secret)),
        pulls("rayo-pull", kThreads),
        serves("rayo-serve", kThreads) {}

  void serve(base::Fd fd, const rpc::DataHeader& header);

  base::Loop& loop;
  rpc::LinkKeys keys;
  int arena_fd = -1;
  std::optional<object_store::ArenaView> view;
  Find find;
  base::TaskGroup fibers;
  base::WorkThreads pulls;
  base::WorkThreads serves;
};

Transfer::Transfer(base::Loop& loop, const rpc::Secret& data_secret)
    : state_(std::make_unique<State>(loop, data_secret)) {}

Transfer::~Transfer() = default;

base::Status Transfer::use_arena(int arena_fd, int64_t arena_bytes) {
  RAYO_ASSIGN_OR_RETURN(base::Fd copy, base::duplicate(arena_fd));
  RAYO_ASSIGN_OR_RETURN(auto view, object_store::ArenaView::open(std::move(copy), arena_bytes));
  state_->arena_fd = arena_fd;
  state_->view.emplace(std::move(view));
  return {};
}

void Transfer::end_fibers() {
  state_->fibers.cancel();
  state_->fibers.join();
}

void Transfer::find_with(Find find) { state_->find = std::move(find); }

void Transfer::pull(const Pull& pull, Done done) {
  State* state = state_.get();
  state->fibers.spawn("pull", [state, pull, done = std::move(done)] {
    auto result = base::run_on_thread(state->pulls, [&] { return run_pull(pull, state->keys, state->arena_fd); });
    if (result.ok()) return done(*result);
    proto::Failure failure;
    failure.set_kind(proto::OBJECT_LOST);
    failure.set_text(base::cat("object ", pull.object.hex(), " could not be fetched from ", pull.holder, ": ",
                               base::message(result.status())));
    failure.set_next_step(base::next_step(result.status()));
    done(failure);
  });
}

void Transfer::serve(base::Fd fd, const rpc::DataHeader& header) {
  State* state = state_.get();
  state->fibers.spawn("serve", [state, fd = std::move(fd), header]() mutable { state->serve(std::move(fd), header); });
}

// In a fiber: the bytes move on a thread, the directory is asked on the loop.
void Transfer::State::serve(base::Fd fd, const rpc::DataHeader& header) {
  std::optional<rpc::TlsPump> tls;
  if (header.tls) tls = rpc::TlsPump::server(keys.tls_key(header.nonce));
  TransferLink link(std::move(fd), std::move(tls), kStall);
  auto object = base::run_on_thread(serves, [&] { return read_request(link); });
  if (!object.ok()) return;
  std::optional<Outgoing> outgoing = find ? find(*object) : std::nullopt;
  (void)base::run_on_thread(serves, [&]() -> base::Status {  // a broken connection is the puller's to tell
    if (!outgoing) {
      proto::Failure failure;
      failure.set_kind(proto::OBJECT_LOST);
      failure.set_text(base::cat("object ", object->hex(), " is no longer on the node that had it"));
      return write_failure(link, failure);
    }
    rpc::FrameHeader reply;
    reply.kind = rpc::FrameKind::kPullReply;
    reply.call_id = static_cast<uint64_t>(outgoing->size_bytes);
    RAYO_RETURN_IF_ERROR(link.write(bytes_of(reply)));
    return link.write(view->read(outgoing->offset, outgoing->size_bytes));
  });
}

}  // namespace rayo::raylet
