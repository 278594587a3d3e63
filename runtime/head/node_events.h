// What nodes say, and what their silence means. Decides over a ClusterState; no I/O. Every event may come twice.
#pragma once

#include "runtime/head/cluster_state.h"
#include "runtime/head/outcome.h"
#include "runtime/head/placer.h"

namespace rayo::head {

class NodeEvents {
 public:
  NodeEvents(ClusterState& state, Placer& placer) : state_(state), placer_(placer) {}

  // A raylet's first message. Where the reply has a failure the stream ends with it; else the shell fills in what is
  // the cluster's (id, epoch, name, secret, settings).
  proto::Registered attach(const proto::Register& registering, Outcome& out);
  // Its stream has broken: what it holds meanwhile it tells when it attaches again.
  void stream_ended(NodeId node);
  // Any later message of its stream.
  void message(NodeId from, const proto::NodeUp& up, Outcome& out);
  proto::BeatReply beat(const proto::BeatRequest& request, Outcome& out);
  // Time has passed.
  void tick(Outcome& out);

 private:
  void leave(NodeId node, const std::string& reason, Outcome& out);
  void worker_died(NodeId from, const proto::WorkerEvent& event, Outcome& out);
  void job(NodeId node, const proto::JobEvent& event, Outcome& out);
  void still_here(NodeId node, const proto::StillHere& told, Outcome& out);
  void settle_death(NodeId node, const proto::NodeInfo& info, const proto::DeathRecord& why, Outcome& out);
  void note_devices(NodeId from, const proto::ResourceReport& report);
  void tell_state(NodeId node, Outcome& out);

  ClusterState& state_;
  Placer& placer_;
};

}  // namespace rayo::head
