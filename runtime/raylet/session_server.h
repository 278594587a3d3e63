// The raylet's unix socket: a fiber for each process that connects, from its hello to the end of its
// connection. What its frames ask is done by FrameDispatch.
//
// Loop thread only.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/base/loop/event.h"
#include "runtime/base/loop/socket.h"
#include "runtime/raylet/frame_wire.h"
#include "runtime/raylet/parts.h"
#include "runtime/raylet/processes.h"

namespace rayo::raylet {

// What HelloReply tells of the cluster.
struct ClusterFacts {
  ClusterId id;
  uint64_t epoch = 0;
  std::string data_secret;
  base::Duration idle_link{};  // after which a process closes a way to another that it does not use
};

class SessionServer {
 public:
  // `driver_came`: what the node says of itself has changed.
  SessionServer(Parts parts, const ClusterFacts& facts, std::function<void()> driver_came);
  ~SessionServer();

  base::Status listen(const base::Path& socket);
  // A connection that came another way: the raylet's end of a forked worker's socket, a remote driver.
  void serve(std::unique_ptr<FrameWire> wire);
  void close();

 private:
  void session(FrameWire& wire);
  // The process that said hello, or null after a refusal was sent.
  LocalProcess* welcome(FrameWire& wire, ReceivedFrame& frame);
  LocalProcess* welcome_driver(FrameWire& wire, const ReceivedFrame& frame);
  LocalProcess* welcome_worker(FrameWire& wire, const ReceivedFrame& frame);
  bool take_doorbell(LocalProcess& process, ReceivedFrame& frame, proto::Failure& failure);
  bool copy_arena(const LocalProcess& process, base::Fd& copy, proto::Failure& failure);
  void refuse(FrameWire& wire, uint64_t call_id, proto::Failure failure);
  void send_reply(FrameWire& wire, uint64_t call_id, const LocalProcess& process, base::Fd arena);
  void show_last_lines();
  void driver_left(ProcessId driver, bool said_goodbye);

  Parts parts_;
  const ClusterFacts& facts_;
  std::function<void()> driver_came_;
  std::unique_ptr<base::UnixListener> listener_;
  base::TaskGroup sessions_;
};

}  // namespace rayo::raylet
