// What workers and drivers ask of actors, by way of their raylets. Decides over a ClusterState; no I/O. Every request
// may come twice.
#pragma once

#include "runtime/head/cluster_state.h"
#include "runtime/head/outcome.h"
#include "runtime/head/placer.h"

namespace rayo::head {

class ActorRequests {
 public:
  ActorRequests(ClusterState& state, Placer& placer) : state_(state), placer_(placer) {}

  // On kNew: write `out`, then admit() or abandon(). On kBeingWritten: wait for the writes before this one and ask
  // again.
  // `request`: of `node`, with create_actor.
  ActorDirectory::Created create(NodeId node, const proto::RelayRequest& request, Outcome& out);
  void admit(ActorId id, Outcome& out);
  void abandon(ActorId id);

  proto::RelayReply watch(NodeId node, const proto::WatchActor& request);
  proto::RelayReply unwatch(NodeId node, const proto::UnwatchActor& request);
  // The actor of that name, which the node holds a handle on from now; its failure says that there is none.
  proto::RelayReply find(NodeId node, const proto::FindActor& request);
  proto::RelayReply kill(const proto::KillActor& request, Outcome& out);
  // The reply with what is known of an actor.
  proto::RelayReply info(ActorId id) const;

 private:
  ClusterState& state_;
  Placer& placer_;
};

}  // namespace rayo::head
