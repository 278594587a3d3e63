// What the head sends, handed to the part that does it. Runs in the fiber that reads the head's stream: what
// waits gets a fiber.
#pragma once

#include <deque>
#include <functional>
#include <string>

#include "runtime/proto/head.pb.h"
#include "runtime/raylet/parts.h"
#include "runtime/raylet/peer_raylets.h"

namespace rayo::raylet {

class HeadDispatch {
 public:
  // `leave` ends this raylet.
  HeadDispatch(Parts parts, PeerRaylets& peers, std::function<void(const proto::LeaveNow&)> leave);

  void message(proto::NodeDown message);
  // After each registration: the nodes; what we watch, and the ends that the head may not have heard of.
  void registered(const proto::Registered& registered, bool first);
  // Of an actor that runs here: to the head and to who watches here.
  void tell_actor(const proto::ActorInfo& info);

  // The largest request of the head that the ledger reckons with (ResourceReport.applied_request).
  uint64_t applied_request() const { return applied_request_; }

 private:
  void node_news(const proto::NodeInfo& info);
  void grant(uint64_t request, const proto::Grant& grant);

  Parts parts_;
  PeerRaylets& peers_;
  std::function<void(const proto::LeaveNow&)> leave_;
  uint64_t applied_request_ = 0;
  std::deque<proto::ActorInfo> recent_ends_;
};

}  // namespace rayo::raylet
