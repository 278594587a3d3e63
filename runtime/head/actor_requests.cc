#include "runtime/head/actor_requests.h"

#include "runtime/base/text.h"
#include "runtime/rpc/own_job.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::head {

using base::cat;
using Creation = ActorDirectory::Creation;

namespace {

proto::RelayReply refused(proto::Failure why) {
  proto::RelayReply out;
  *out.mutable_failure() = std::move(why);
  return out;
}

proto::RelayReply unknown(ActorId id) {
  return refused(failure(proto::ACTOR_DIED, cat("no actor ", id.hex(), ": it died long ago, or never was")));
}

}  // namespace

ActorDirectory::Created ActorRequests::create(NodeId node, const proto::RelayRequest& request, Outcome& out) {
  const proto::ActorSpec& spec = request.create_actor().spec();
  auto job = rpc::from_proto<JobId>(spec.job());
  auto id = rpc::from_proto<ActorId>(spec.actor());
  if (state_.jobs.ended(job) && !state_.actors.find(id)) {
    return {Creation::kRefused, id, failure(proto::CANCELLED, "its job has ended")};
  }
  const bool owns =
      request.has_own_job() && rpc::from_proto<JobId>(request.own_job().job()) == job && job == rpc::own_job_of(id);
  if (spec.detached() && !owns)
    return {Creation::kRefused, id, failure(proto::INVALID, "a detached actor without a job of its own")};
  if (auto refused = placer_.refusal(spec.demand(), actor_text(spec)); refused && !state_.actors.find(id))
    return {Creation::kRefused, id, *std::move(refused)};
  ActorChanges changes;
  auto created = state_.actors.create(request.create_actor(), node, state_.now_us(), changes);
  const bool fresh = created.outcome == Creation::kNew;
  if (fresh && owns) state_.jobs.apply({}, request.own_job(), state_.now_us(), out.persist);
  placer_.settle(std::move(changes), out);
  if (fresh && request.started()) placer_.adopt(id, node, out);
  return created;
}

void ActorRequests::abandon(ActorId id) {
  const auto* actor = state_.actors.find(id);
  if (actor && actor->spec.detached()) state_.jobs.abandon(rpc::from_proto<JobId>(actor->spec.job()));
  state_.actors.abandon(id);
  ActorChanges gone;
  gone.changed.push_back(id);
  Outcome none;  // where it began by itself, its node hears of it in the answer
  placer_.settle(std::move(gone), none);
}

void ActorRequests::admit(ActorId id, Outcome& out) {
  ActorChanges changes;
  state_.actors.admit(id, changes);
  placer_.settle(std::move(changes), out);
  placer_.pump(out);
}

proto::RelayReply ActorRequests::info(ActorId id) const {
  const auto* actor = state_.actors.find(id);
  if (!actor) return unknown(id);
  proto::RelayReply out;
  *out.mutable_actor() = actor->info;
  if (const auto* waiting = state_.queue.find_actor(id)) {
    for (auto& reason : state_.queue.reasons(*waiting, state_.nodes))
      *out.mutable_actor()->add_reasons() = std::move(reason);
  }
  return out;
}

proto::RelayReply ActorRequests::watch(NodeId node, const proto::WatchActor& request) {
  auto id = rpc::from_proto<ActorId>(request.actor());
  state_.actors.watch(id, node);
  return info(id);
}

proto::RelayReply ActorRequests::unwatch(NodeId node, const proto::UnwatchActor& request) {
  state_.actors.unwatch(rpc::from_proto<ActorId>(request.actor()), node);
  return {};
}

proto::RelayReply ActorRequests::find(NodeId node, const proto::FindActor& request) {
  if (request.has_actor()) return info(rpc::from_proto<ActorId>(request.actor()));
  auto id = state_.actors.named(request.namespace_(), request.name());
  if (!id) {
    return refused(failure(proto::INVALID,
                           cat("no actor '", request.name(), "' in the namespace '", request.namespace_(), "'"),
                           "`rayo list actors` shows the names; a name is free again when its actor dies"));
  }
  state_.actors.given(*id, node);
  return info(*id);
}

proto::RelayReply ActorRequests::kill(const proto::KillActor& request, Outcome& out) {
  auto id = rpc::from_proto<ActorId>(request.actor());
  const auto* actor = state_.actors.find(id);
  if (!actor) return unknown(id);
  ActorChanges changes;
  const auto why = death_record(proto::KILLED, {}, "it was killed by rayo::kill", state_.now_us());
  if (!request.may_restart() || !state_.actors.end_life(id, request.incarnation(), why, changes))
    state_.actors.end(id, why, nullptr, changes);
  placer_.settle(std::move(changes), out);
  return info(id);
}

}  // namespace rayo::head
