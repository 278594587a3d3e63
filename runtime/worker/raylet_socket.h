// The way to the raylet before an engine drives it: the hello of every process, and all that a zygote ever says. Its
// unix socket, or for a remote driver TCP with TLS. Blocking, one thread, with deadlines; reads exactly one frame at a
// time, so that what follows is the engine's.
//
//   auto raylet = RayletSocket::open(path);
//   raylet->send(1, message, fds);  auto answer = raylet->receive(deadline);
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/status.h"
#include "runtime/proto/worker.pb.h"
#include "runtime/rpc/tls_pump.h"

namespace rayo::worker {

struct ReceivedFrame {
  uint64_t call_id = 0;
  proto::ToWorker message;
  std::vector<base::Fd> fds;
};

class RayletSocket {
 public:
  explicit RayletSocket(base::Fd socket) : socket_(std::move(socket)) {}

  // Unavailable: nobody listens there, with what to do next.
  static base::StatusOr<RayletSocket> open(const std::string& path);
  // By the published HOST:PORT of the head or of any node, and the cluster's token. PermissionDenied: the token is another cluster's.
  static base::StatusOr<RayletSocket> dial(const std::string& host_port, const std::string& token,
                                           base::TimePoint deadline);

  // Descriptors travel over the unix socket alone.
  base::Status send(uint64_t call_id, const proto::ToRaylet& message, std::span<const int> fds = {});
  // Unavailable where the socket is closed; DeadlineExceeded (kForever: waits for ever).
  base::StatusOr<ReceivedFrame> receive(base::TimePoint deadline);

  bool remote() const { return tls_ != nullptr; }
  // What the engine takes over.
  base::Fd take_socket() { return std::move(socket_); }
  std::unique_ptr<rpc::TlsPump> take_tls() { return std::move(tls_); }

 private:
  base::Status read(void* to, size_t size, std::vector<base::Fd>& fds, base::TimePoint deadline);
  base::Status read_tls(void* to, size_t size, base::TimePoint deadline);
  base::Status flush_tls();

  base::Fd socket_;
  std::unique_ptr<rpc::TlsPump> tls_;
};

}  // namespace rayo::worker
