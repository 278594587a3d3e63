// Turns what the directory and the queue decide into messages: places what waits, tells watchers, gives up what can
// never be. Decides over a ClusterState; no I/O. Idempotent where the events are.
#pragma once

#include "runtime/head/cluster_state.h"
#include "runtime/head/outcome.h"

namespace rayo::head {

class Placer {
 public:
  explicit Placer(ClusterState& state) : state_(state) {}

  // Does what an act on the directory led to.
  void settle(ActorChanges changes, Outcome& out);
  // A new actor began on that node by itself.
  void adopt(ActorId id, NodeId node, Outcome& out);
  // Starts and grants everything that fits now.
  void pump(Outcome& out);
  // Time has passed: notices, Unschedulable, requests that nobody asks again for; then pump().
  void tick(Outcome& out);

  // What is bound to a node that nobody knows is told so and does not wait.
  std::optional<proto::Failure> refusal(const proto::Demand& demand, const std::string& what) const;
  // A request for leases; an equal one that is still waiting is taken up again, with its age. Returns its ticket.
  uint64_t ask_leases(const proto::PlaceLeasesRequest& request, Outcome& out);
  void grant_reply(NodeId node, uint64_t request, const proto::GrantReply& reply, Outcome& out);
  // Nobody waits for this answer any more: the leases go back.
  void return_leases(const LeaseAnswer& answer, Outcome& out);
  // What this node was to grant is asked of others.
  void node_died(NodeId node);
  // Once: with its actors and what waits for it. `why`: of its driver, or of the detached actor whose own it is.
  void end_job(JobId job, const proto::DeathRecord& why, Outcome& out);

 private:
  void enqueue(const ToPlace& wanted);
  void tell_death(ActorId id);
  void tell_watchers(ActorId id, Outcome& out);
  void send_start(const Placed& placed, Outcome& out);
  Waiting wish_of(ActorId id, base::Duration wait) const;
  void place_actor(Placed placed, Outcome& out);
  void begin(Placed placed, Outcome& out);
  void send_grant(Placed placed, Outcome& out);
  void give_up(const Waiting& item, Outcome& out);
  void notify(const Waiting& item, Outcome& out);
  std::string why_never(const Waiting& item) const;
  std::string reasons_of(const Waiting& item) const;

  ClusterState& state_;
};

}  // namespace rayo::head
