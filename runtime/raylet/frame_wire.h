// The frames between this raylet and one worker or driver, whatever carries them: a unix socket (descriptors
// travel along), or for a remote driver TCP under TLS (they do not). One fiber reads; any fiber sends. Loop
// thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/fd.h"
#include "runtime/base/loop/socket.h"
#include "runtime/base/status.h"
#include "runtime/proto/worker.pb.h"

namespace rayo::raylet {

struct ReceivedFrame {
  uint64_t call_id = 0;  // 0: a push
  proto::ToRaylet message;
  std::vector<base::Fd> descriptors;
};

class FrameWire {
 public:
  virtual ~FrameWire() = default;
  // kUnavailable: the other side closed; InvalidArgument: what came is no frame of ours. Either ends the
  // wire.
  virtual base::StatusOr<ReceivedFrame> read(base::TimePoint deadline) = 0;
  // Queues one frame; false where the wire is closed, or was closed now because the other side does not read
  // (64 MiB wait).
  virtual bool send(uint64_t call_id, const proto::ToWorker& message, std::vector<base::Fd> descriptors) = 0;
  virtual void close() = 0;
  // Of a unix socket: who connected; 0 elsewhere.
  virtual pid_t peer_pid() const = 0;
};

std::unique_ptr<FrameWire> make_unix_wire(std::unique_ptr<base::Stream> stream);

// A copy of a descriptor, close-on-exec; empty where there are none left.
base::Fd duplicate(int fd);

// A frame's bytes (header and message), for whatever writes it.
std::string encode_frame(uint64_t call_id, const google::protobuf::MessageLite& message, size_t descriptors);

}  // namespace rayo::raylet
