// The raylet's unix socket before an engine drives it: the hello of every process, and all that a zygote ever says. Blocking, one
// thread, with deadlines; reads exactly one frame at a time, so that what follows is the engine's.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/status.h"
#include "runtime/proto/worker.pb.h"

namespace rayo::worker {

// Unavailable: nobody listens there, with what to do next.
base::StatusOr<base::Fd> connect_raylet(const std::string& path);

base::Status send_frame(int socket, uint64_t call_id, const proto::ToRaylet& message, std::span<const int> fds = {});

struct ReceivedFrame {
  uint64_t call_id = 0;
  proto::ToWorker message;
  std::vector<base::Fd> fds;
};
// Unavailable where the socket is closed; DeadlineExceeded (kForever: waits for ever).
base::StatusOr<ReceivedFrame> receive_frame(int socket, base::TimePoint deadline);

}  // namespace rayo::worker
