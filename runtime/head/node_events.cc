#include "runtime/head/node_events.h"

#include <set>

#include "runtime/base/text.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::head {

using base::cat;
using scheduler::NodeState;

namespace {

std::string node_text(const proto::NodeInfo& info) {
  return cat("node ", info.hostname(), " (", short_hex(info.node()), ", ", info.address(), ")");
}

// With its incarnation, so that a raylet that outlives a head is known by the next one.
void save(proto::Register registering, Outcome& out) {
  registering.clear_actors();
  auto id = rpc::from_proto<NodeId>(registering.node().node());
  out.persist.put("nodes", id.hex(), registering.SerializeAsString());
}

}  // namespace

proto::Registered NodeEvents::attach(const proto::Register& registering, Outcome& out) {
  proto::Registered reply;
  auto id = rpc::from_proto<NodeId>(registering.node().node());
  auto arrival = state_.nodes.arrival(registering);
  if (!id || arrival == NodeTable::Arrival::kOld) {
    *reply.mutable_failure() =
        failure(proto::INVALID, id ? "this node was replaced by a newer life of it" : "a node without an id",
                "stop this raylet; its successor serves");
    return reply;
  }
  if (arrival == NodeTable::Arrival::kNewLife) {
    auto old = state_.nodes.find(id)->info;
    auto why = death_record(proto::NODE_LOST, id, cat(node_text(old), " was started anew"), state_.now_us());
    state_.nodes.bury(id, why);
    settle_death(id, old, why, out);
  }
  // It comes again, perhaps from the dead: its StillHere follows.
  if (rpc::from_proto<ClusterId>(registering.cluster())) state_.actors.lost_sight_of(id);
  state_.nodes.put(registering, state_.now());
  ActorChanges changes;
  state_.actors.reconcile(id, {registering.actors().begin(), registering.actors().end()}, state_.now_us(), changes);
  placer_.settle(std::move(changes), out);
  if (arrival != NodeTable::Arrival::kSameLife) {
    state_.events.add(state_.now_us(), "info", cat(node_text(registering.node()), " joined"));
  }
  save(registering, out);
  tell_state(id, out);
  for (const auto& [other, node] : state_.nodes.all()) *reply.add_nodes() = state_.nodes.describe(node, state_.now());
  placer_.pump(out);
  return reply;
}

void NodeEvents::stream_ended(NodeId node) {
  if (state_.nodes.find(node)) state_.actors.lost_sight_of(node);
}

void NodeEvents::tell_state(NodeId node, Outcome& out) {
  if (const auto* known = state_.nodes.find(node))
    *out.send({}).mutable_node() = state_.nodes.describe(*known, state_.now());
}

void NodeEvents::message(NodeId from, const proto::NodeUp& up, Outcome& out) {
  if (!state_.nodes.find(from)) return;  // it is dead to us: it will register again
  switch (up.message_case()) {
    case proto::NodeUp::kResources:
      note_devices(from, up.resources());
      state_.nodes.report(from, up.resources());
      break;
    case proto::NodeUp::kActor: {
      ActorChanges changes;
      state_.actors.report(from, up.actor(), state_.now_us(), changes);
      placer_.settle(std::move(changes), out);
      break;
    }
    case proto::NodeUp::kActorHandles: {
      ActorChanges changes;
      state_.actors.handles(from, up.actor_handles(), state_.now_us(), changes);
      placer_.settle(std::move(changes), out);
      if (up.request() != 0) out.send(from).set_request(up.request());
      break;
    }
    case proto::NodeUp::kStillHere:
      still_here(from, up.still_here(), out);
      if (up.request() != 0) out.send(from).set_request(up.request());
      break;
    case proto::NodeUp::kJob:
      job(from, up.job(), out);
      break;
    case proto::NodeUp::kWorkerDied:
      worker_died(from, up.worker_died(), out);
      break;
    case proto::NodeUp::kGrantReply:
      placer_.grant_reply(from, up.request(), up.grant_reply(), out);
      break;
    case proto::NodeUp::kLeave:
      leave(from, up.leave().reason(), out);
      break;
    default:
      return;
  }
  placer_.pump(out);
}

// Under the name of the node that says so: who calls the process knows where it is, and believes nobody else.
void NodeEvents::worker_died(NodeId from, const proto::WorkerEvent& event, Outcome& out) {
  auto& told = *out.send({}).mutable_worker_died();
  told = event;
  rpc::to_proto(from, told.mutable_node());
  rpc::to_proto(from, told.mutable_death()->mutable_node());
}

// A device that leaves the pool or comes back is an event.
void NodeEvents::note_devices(NodeId from, const proto::ResourceReport& report) {
  const auto& before = state_.nodes.find(from)->info;
  for (const auto& now : report.devices()) {
    for (const auto& old : before.devices()) {
      if (old.uuid() != now.uuid() || old.state() == now.state()) continue;
      state_.events.add(state_.now_us(), now.state() == "ok" ? "info" : "warning",
                        cat("GPU ", now.index(), " of ", node_text(before), " is ", now.state(),
                            now.reason().empty() ? "" : ": ", now.reason()));
    }
  }
}

proto::BeatReply NodeEvents::beat(const proto::BeatRequest& request, Outcome& out) {
  std::vector<NodeTable::Change> changes;
  auto reply = state_.nodes.beat(request, state_.now(), changes);
  for (const auto& change : changes) {
    state_.events.add(state_.now_us(), "info", cat(node_text(state_.nodes.find(change.node)->info), " is back"));
    tell_state(change.node, out);
    out.send(change.node).mutable_ask_still_here();
  }
  if (!changes.empty()) placer_.pump(out);
  return reply;
}

void NodeEvents::tick(Outcome& out) {
  std::unordered_map<NodeId, proto::NodeInfo> before;
  for (const auto& [id, node] : state_.nodes.all()) before.emplace(id, node.info);
  for (const auto& change : state_.nodes.tick(state_.now(), state_.now_us())) {
    const auto& info = before.at(change.node);
    if (change.to == NodeState::kDead) {
      settle_death(change.node, info, change.death, out);
    } else {
      state_.events.add(state_.now_us(), "warning", cat(node_text(info), " is suspect: its beats do not come"));
      state_.actors.lost_sight_of(change.node);  // perhaps it has given us up
      tell_state(change.node, out);
    }
  }
  state_.nodes.forget_dead(state_.now_us());
  placer_.tick(out);
}

void NodeEvents::leave(NodeId node, const std::string& reason, Outcome& out) {
  auto info = state_.nodes.find(node)->info;
  auto why = death_record(proto::STOPPED, node, cat(node_text(info), " left: ", reason.empty() ? "stopped" : reason),
                          state_.now_us());
  state_.nodes.bury(node, why);
  settle_death(node, info, why, out);
}

void NodeEvents::settle_death(NodeId node, const proto::NodeInfo& info, const proto::DeathRecord& why, Outcome& out) {
  state_.events.add(state_.now_us(), why.kind() == proto::STOPPED ? "info" : "error", why.text());
  *out.send({}).mutable_node() = dead_node(info, why);
  out.persist.erase("nodes", node.hex());
  for (auto job : state_.jobs.on_node(node)) placer_.end_job(job, why, out);
  placer_.node_died(node);
  ActorChanges changes;
  state_.actors.node_died(node, why, state_.now_us(), changes);
  placer_.settle(std::move(changes), out);
  placer_.pump(out);
}

void NodeEvents::job(NodeId node, const proto::JobEvent& event, Outcome& out) {
  auto id = rpc::from_proto<JobId>(event.job());
  const auto* known = state_.jobs.find(id);
  if (known && rpc::from_proto<NodeId>(known->node()) != node) return;  // another node's: not this one's to tell of
  if (event.ended()) {
    auto why = event.death();
    if (why.kind() == proto::DEATH_UNSPECIFIED)
      why = death_record(proto::DRIVER_GONE, node, "its driver ended", state_.now_us());
    placer_.end_job(id, why, out);
  } else if (state_.jobs.apply(node, event, state_.now_us(), out.persist)) {
    *out.send({}).mutable_job() = *state_.jobs.find(id);
  }
}

void NodeEvents::still_here(NodeId node, const proto::StillHere& told, Outcome& out) {
  std::set<JobId> running;
  for (const auto& job : told.jobs()) running.insert(rpc::from_proto<JobId>(job));
  const auto why =
      death_record(proto::DRIVER_GONE, node, "it ended while its node could not reach the head", state_.now_us());
  for (JobId job : state_.jobs.on_node(node)) {
    // Another program's may have been opened on another node, and ends with its parent.
    if (!running.contains(job) && !state_.jobs.find(job)->has_parent()) placer_.end_job(job, why, out);
  }
  std::set<ActorId> held;
  for (const auto& actor : told.actors_held()) held.insert(rpc::from_proto<ActorId>(actor));
  ActorChanges changes;
  state_.actors.holds_only(node, held, state_.now_us(), changes);
  placer_.settle(std::move(changes), out);
}

}  // namespace rayo::head
