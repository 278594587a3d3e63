// What <rayo/stream.h> declares.
#include <cstring>
#include <typeinfo>

#include <rayo/stream.h>

#include "runtime/base/invoke.h"
#include "runtime/base/text.h"
#include "runtime/base/units.h"

namespace rayo {
inline namespace v0 {
namespace internal {

namespace {

template <class T>
void put(Encoder& out, const T& id) {
  std::byte bytes[sizeof(T)];
  std::memcpy(bytes, &id, sizeof bytes);
  out.bytes(bytes);
}

template <class T>
T take(Decoder& in) {
  const auto bytes = in.bytes();
  T id;
  if (bytes.size() != sizeof id) in.mismatch("the bytes of an id");
  std::memcpy(&id, bytes.data(), sizeof id);
  return id;
}

constexpr uint64_t kFields = 7;

}  // namespace

void refuse_empty_stream() {
  throw Invalid({.kind = ErrorKind::kInvalid,
                 .text = "an empty Stream or StreamWriter was used",
                 .next_step = "use what rayo::make_stream answered, where it was moved to"});
}

void throw_stream_timeout(const char* what, std::chrono::nanoseconds timeout) {
  throw Timeout({.kind = ErrorKind::kTimeout,
                 .text = base::cat(what, " of a stream: nothing after ", base::format_duration(timeout)),
                 .next_step = "the stream goes on: ask again, or cancel it"});
}

MadeStream make_stream(const StreamOptions& options) {
  if (options.window == 0 || options.window_bytes <= 0)
    throw Invalid({.kind = ErrorKind::kInvalid,
                   .text = "a stream's window is 0: nothing could ever be written",
                   .next_step = "give .window at least 1 item and .window_bytes at least 1 byte"});
  return backend().make_stream(options);
}

void encode_stream(Encoder& out, StreamReading* stream) {
  if (stream == nullptr) return out.null();
  const GivenStream given = stream->give();
  out.tag(kStreamTag);
  out.array(kFields);
  put(out, given.address.marker);
  out.inner_ref(given.marker);
  put(out, given.address.node);
  put(out, given.address.process);
  put(out, given.address.actor);
  out.unsigned_integer(given.address.incarnation);
  out.unsigned_integer(given.address.window);
  out.integer(given.address.window_bytes);
}

std::unique_ptr<StreamReading> decode_stream(Decoder& in) {
  if (in.take_null()) return nullptr;
  if (!in.take_tag(kStreamTag)) in.mismatch("a Stream");
  in.array_of(kFields);
  StreamAddress address;
  address.marker = take<ObjectId>(in);
  address.node = take<NodeId>(in);
  address.process = take<ProcessId>(in);
  address.actor = take<ActorId>(in);
  address.incarnation = static_cast<uint32_t>(in.unsigned_integer());
  address.window = static_cast<uint32_t>(in.unsigned_integer());
  address.window_bytes = in.integer();
  return backend().open_stream(address);
}

ErrorRecord record_of_exception(const std::exception& error) {
  if (const auto* known = dynamic_cast<const Error*>(&error)) return known->record();
  ErrorRecord record{.kind = ErrorKind::kTask};
  record.remote_type = base::demangled(typeid(error));
  record.text = base::cat("the writer of a stream failed with ", record.remote_type, ": ", error.what());
  return record;
}

}  // namespace internal
}  // namespace v0
}  // namespace rayo
