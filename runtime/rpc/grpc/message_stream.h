// One call's messages as bytes, and the typed ends of it that handlers and callers hold. Used in fibers of
// one loop.
//
// read() gives the next message, nullopt at the end of the other side's stream, or an error:
// kDeadlineExceeded (nothing came: read again), kCancelled (this fiber), anything else: the call is over. A
// write waits until gRPC has taken the message (flow control); one that misses its deadline cancels the call.
// One fiber reads, any number write: messages never interleave.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/loop/event.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"

namespace rayo::rpc {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  virtual base::StatusOr<std::optional<std::string>> read(base::TimePoint deadline) = 0;
  virtual base::Status write(std::string message, base::TimePoint deadline) = 0;
  // The one reply of a call: it goes out with the call's end.
  virtual base::Status write_last(std::string message) = 0;
  // Set once the call is over: cancelled, broken, or ended by the other side.
  virtual base::Event& gone() = 0;
};

template <class Message>
base::StatusOr<Message> parse_message(const std::string& bytes) {
  Message message;
  if (!message.ParseFromString(bytes))
    return base::failed(absl::StatusCode::kInvalidArgument,
                        base::cat("a message of ", bytes.size(), " bytes is no ", message.GetTypeName()));
  return message;
}

// What reads messages of type In and writes those of type Out.
template <class In, class Out>
class MessageStream {
 public:
  explicit MessageStream(ByteStream& bytes) : bytes_(bytes) {}
  base::StatusOr<std::optional<In>> read(base::TimePoint deadline = base::kForever) {
    auto bytes = bytes_.read(deadline);
    if (!bytes.ok()) return bytes.status();
    if (!*bytes) return std::optional<In>();
    auto message = parse_message<In>(**bytes);
    if (!message.ok()) return message.status();
    return std::optional<In>(std::move(*message));
  }
  base::Status write(const Out& message, base::TimePoint deadline = base::kForever) {
    return bytes_.write(message.SerializeAsString(), deadline);
  }
  base::Status write_last(const Out& message) { return bytes_.write_last(message.SerializeAsString()); }
  base::Event& gone() { return bytes_.gone(); }

 private:
  ByteStream& bytes_;
};

}  // namespace rayo::rpc
