#include "runtime/head/relay.h"

#include "runtime/base/text.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::head {

using base::cat;
using Creation = ActorDirectory::Creation;

namespace {

constexpr base::Duration kWritingPoll = 1ms;
constexpr base::Duration kReplyMargin = 100ms;

proto::RelayReply failed_reply(proto::Failure why) {
  proto::RelayReply out;
  *out.mutable_failure() = std::move(why);
  return out;
}

}  // namespace

proto::RelayReply Relay::answer(const proto::RelayRequest& request) {
  auto node = rpc::from_proto<NodeId>(request.node());
  switch (request.message_case()) {
    case proto::RelayRequest::kCreateActor:
      return create(node, request);
    case proto::RelayRequest::kWatchActor:
      return core_.actors.watch(node, request.watch_actor());
    case proto::RelayRequest::kUnwatchActor:
      return core_.actors.unwatch(node, request.unwatch_actor());
    case proto::RelayRequest::kFindActor:
      // A name is told only once its creation is on the disk.
      if (auto written = core_.line.barrier(); !written.ok()) return failed_reply(failure(proto::UNAVAILABLE, written));
      return core_.actors.find(node, request.find_actor());
    case proto::RelayRequest::kKillActor:
      return kill(request.kill_actor());
    case proto::RelayRequest::kKeyValue:
      return key_value(rpc::from_proto<JobId>(request.job()), request.key_value());
    case proto::RelayRequest::kListNodes:
      return list_nodes();
    case proto::RelayRequest::kFindJob:
      return find_job(rpc::from_proto<JobId>(request.find_job().job()));
    case proto::RelayRequest::kLogLines:
      return log_lines(request.log_lines());
    default:
      return failed_reply(
          failure(proto::INVALID, "a request that this head does not know", "are all nodes of one version?"));
  }
}

// Who creates an actor watches it from then on.
proto::RelayReply Relay::create(NodeId node, const proto::RelayRequest& request) {
  for (;;) {
    Outcome out;
    auto created = core_.actors.create(node, request, out);
    switch (created.outcome) {
      case Creation::kRefused:
        return failed_reply(std::move(created.failure));
      case Creation::kExisting:
        core_.state.actors.watch(created.actor, node);
        return core_.actors.info(created.actor);
      case Creation::kBeingWritten:
        if (!base::sleep_for(kWritingPoll))
          return failed_reply(failure(proto::UNAVAILABLE, "the head is ending", "ask again"));
        continue;
      case Creation::kNew:
        break;
    }
    auto place = [this, node, actor = created.actor](Outcome& placed) {
      core_.actors.admit(actor, placed);
      core_.state.actors.watch(actor, node);
    };
    if (auto written = core_.line.commit(std::move(out), place); !written.ok()) {
      core_.actors.abandon(created.actor);
      return failed_reply(
          failure(proto::UNAVAILABLE,
                  base::within(written, cat(actor_text(request.create_actor().spec()), " is not created"))));
    }
    return core_.actors.info(created.actor);
  }
}

proto::RelayReply Relay::kill(const proto::KillActor& request) {
  Outcome out;
  auto reply = core_.actors.kill(request, out);
  core_.line.submit(std::move(out));
  return reply;
}

proto::RelayReply Relay::key_value(JobId job, const proto::KeyValue& request) {
  std::lock_guard turn(key_value_turn_);
  Outcome out;
  proto::RelayReply reply;
  if (request.op() == proto::KeyValue::PUT && core_.state.jobs.ended(job)) {
    *reply.mutable_key_value()->mutable_failure() = failure(proto::CANCELLED, "its job has ended");
    return reply;
  }
  auto& answer = *reply.mutable_key_value();
  answer = core_.state.key_value.answer(request, out.persist);
  if (out.persist.empty()) return reply;
  if (auto written = core_.line.commit(std::move(out)); !written.ok()) {
    *answer.mutable_failure() = failure(proto::UNAVAILABLE, written);
  } else {
    core_.state.key_value.apply(request);
    if (core_.state.jobs.ended(job)) forget_values(job);
  }
  return reply;
}

// What a job put while it ended came behind the end of its namespace.
void Relay::forget_values(JobId job) {
  Outcome out;
  core_.state.key_value.end_namespace(job_namespace(job), out.persist);
  core_.line.submit(std::move(out));
}

proto::RelayReply Relay::list_nodes() const {
  proto::RelayReply out;
  for (const auto& [id, node] : core_.state.nodes.all()) {
    *out.mutable_nodes()->add_nodes() = core_.state.nodes.describe(node, core_.state.now());
  }
  return out;
}

proto::RelayReply Relay::find_job(JobId id) const {
  const auto* job = core_.state.jobs.find(id);
  if (!job) return failed_reply(failure(proto::INVALID, cat("no job ", id.hex())));
  proto::RelayReply out;
  *out.mutable_job() = *job;
  return out;
}

// Best effort, and not behind writes: a lost line of a log is no lost promise.
proto::RelayReply Relay::log_lines(const proto::LogLinesFor& lines) {
  const auto* job = core_.state.jobs.find(rpc::from_proto<JobId>(lines.job()));
  if (!job || !rpc::from_proto<NodeId>(job->node())) return {};  // a detached actor's: it has no driver
  Send send{rpc::from_proto<NodeId>(job->node()), {}};
  *send.message.mutable_log_lines() = lines;
  core_.streams.send(send);
  return {};
}

proto::PlaceLeasesReply place_leases(Core& core, const proto::PlaceLeasesRequest& request, base::TimePoint deadline,
                                     const base::Event& caller_gone) {
  proto::PlaceLeasesReply reply;
  auto job = rpc::from_proto<JobId>(request.job());
  if (core.state.jobs.ended(job)) {
    *reply.mutable_failure() = failure(proto::CANCELLED, "its job has ended");
    return reply;
  }
  if (auto refused = core.placer.refusal(request.demand(), cat("task ", request.what()))) {
    *reply.mutable_failure() = *std::move(refused);
    return reply;
  }
  Outcome out;
  auto ticket = core.placer.ask_leases(request, out);
  auto waiter = core.expect(ticket);
  core.line.submit(std::move(out));
  auto latest = base::deadline_after(core.state.now(), kLeaseAnswerWithin);
  auto answer = waiter->wait(std::min(latest, deadline == base::kForever ? latest : deadline - kReplyMargin));
  core.expect_no_more(ticket, waiter);
  if (answer && caller_gone.is_set()) {
    Outcome returned;
    core.placer.return_leases(*answer, returned);
    core.line.submit(std::move(returned));
    return reply;
  }
  if (answer) return std::move(answer->reply);
  if (auto* item = core.state.queue.find(ticket)) {
    item->asked_until = base::deadline_after(core.state.now(), kLeaseAskHolds);
    for (auto& reason : core.state.queue.reasons(*item, core.state.nodes)) *reply.add_reasons() = std::move(reason);
  }
  return reply;
}

}  // namespace rayo::head
