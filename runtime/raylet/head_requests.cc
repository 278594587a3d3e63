#include "runtime/raylet/head_requests.h"

#include "runtime/rpc/own_job.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::raylet {
namespace {

using namespace std::chrono_literals;

constexpr base::Duration kAwayPoll = 200ms;
constexpr base::Duration kLookAgain = 100ms;  // whether the head, which is away, is given up
constexpr base::Duration kHeadLimit = 30s;    // for a head that is there and slow; HeadLink tells of one that is away

proto::RelayRequest relay_request(const LocalProcess& from, NodeId node, const proto::ToRaylet& message) {
  proto::RelayRequest request;
  rpc::to_proto(node, request.mutable_node());
  rpc::to_proto(from.id, request.mutable_process());
  rpc::to_proto(from.job, request.mutable_job());
  switch (message.message_case()) {
    case proto::ToRaylet::kCreateActor:
      *request.mutable_create_actor() = message.create_actor();
      break;
    case proto::ToRaylet::kWatchActor:
      *request.mutable_watch_actor() = message.watch_actor();
      break;
    case proto::ToRaylet::kUnwatchActor:
      *request.mutable_unwatch_actor() = message.unwatch_actor();
      break;
    case proto::ToRaylet::kFindActor:
      *request.mutable_find_actor() = message.find_actor();
      break;
    case proto::ToRaylet::kKillActor:
      *request.mutable_kill_actor() = message.kill_actor();
      break;
    case proto::ToRaylet::kKeyValue:
      *request.mutable_key_value() = message.key_value();
      break;
    default:
      request.mutable_list_nodes();
      break;
  }
  return request;
}

bool is_away(const base::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable || status.code() == absl::StatusCode::kDeadlineExceeded;
}

bool is_created(const base::StatusOr<proto::RelayReply>& answer, ActorId actor) {
  return answer.ok() && answer->has_actor() && rpc::from_proto<ActorId>(answer->actor().actor()) == actor;
}

proto::RelayReply living(ActorId actor) {
  proto::RelayReply reply;
  rpc::to_proto(actor, reply.mutable_actor()->mutable_actor());
  reply.mutable_actor()->set_state(proto::STARTING);
  reply.mutable_actor()->set_incarnation(1);
  return reply;
}

}  // namespace

HeadRequests::HeadRequests(base::Loop& loop, Processes& processes, Jobs& jobs, HeadLink& head)
    : loop_(loop), processes_(processes), jobs_(jobs), head_(head) {}

HeadRequests::~HeadRequests() = default;

void HeadRequests::ask(ProcessId from, uint64_t call_id, const proto::ToRaylet& message) {
  auto& line = lines_[from];
  if (!line) {
    line = std::make_unique<Line>();
    line->fiber.spawn("head requests", [this, from, here = line.get()] { answer_all(from, *here); });
  }
  line->questions.push({call_id, message, loop_.deadline(kHeadLimit)});
}

void HeadRequests::answer_all(ProcessId from, Line& line) {
  while (auto question = line.questions.pop()) answer(from, *question);
}

void HeadRequests::answer(ProcessId from, const Question& question) {
  if (!processes_.find(from)) return;  // it has gone while others of its questions were answered
  if (question.message.has_create_actor()) return create(from, question);
  if (question.message.has_watch_actor()) return watch(from, question);
  if (question.message.has_unwatch_actor()) return unwatch(from, question);
  reply(from, question, relay(from, question));
}

base::StatusOr<proto::RelayReply> HeadRequests::relay(ProcessId from, const Question& question, bool started) {
  LocalProcess* process = processes_.find(from);
  if (!process) return base::failed(absl::StatusCode::kCancelled, "the process has ended");
  proto::RelayRequest request = relay_request(*process, processes_.node(), question.message);
  request.set_started(started);
  if (request.has_create_actor() && request.create_actor().spec().detached()) {
    const auto job = rpc::from_proto<JobId>(request.create_actor().spec().job());
    return create_detached(job, std::move(request), question.deadline);
  }
  return head_.relay(request, question.deadline);
}

// It outlives its program's job, so it runs in one of its own, with the same program.
base::StatusOr<proto::RelayReply> HeadRequests::create_detached(JobId programs, proto::RelayRequest request,
                                                                base::TimePoint deadline) {
  const Job* job = jobs_.find(programs);
  if (!job) return base::failed(absl::StatusCode::kCancelled, "its job has ended");
  proto::ActorSpec& spec = *request.mutable_create_actor()->mutable_spec();
  const auto actor = rpc::from_proto<ActorId>(spec.actor());
  Job own = *job;
  own.id = rpc::own_job_of(actor);
  own.driver = {};
  own.node = {};
  own.parent = {};
  *request.mutable_own_job() = job_event(own);
  rpc::to_proto(own.id, spec.mutable_job());
  auto reply = head_.relay(request, deadline);
  // Its program is here: nodes that join later may need it.
  const bool created = reply.ok() && rpc::from_proto<ActorId>(reply->actor().actor()) == actor;
  if (created && !jobs_.ended(own.id)) jobs_.add(std::move(own));
  return reply;
}

// Who creates an actor watches it, here and at the head: no second question to the head, and the news of its start,
// which may overtake the answer, finds its way.
void HeadRequests::create(ProcessId from, const Question& question) {
  const proto::ActorSpec& spec = question.message.create_actor().spec();
  auto actor = rpc::from_proto<ActorId>(spec.actor());
  cache_.watch(actor, from);
  const bool started = start_here(from, spec);
  auto asked = relay(from, question, started);
  const LocalProcess* creator = processes_.find(from);
  if (started && creator && is_away(asked.status())) {
    create_later(actor, relay_request(*creator, processes_.node(), question.message));
    asked = living(actor);
  } else if (started) {
    begun(actor, asked);
  }
  const bool created = is_created(asked, actor);
  if (created) {
    // What this node has told of it meanwhile may be newer than the answer, or older: it may be dead by now.
    learn_from_answer(from, asked->actor(), ActorCache::Source::kHere);
    if (const auto* known = cache_.find(actor)) *asked->mutable_actor() = *known;
  }
  if (!created && cache_.unwatch(actor, from)) tell_unwatched(actor);
  reply(from, question, asked);
}

// It runs, and the head is away: it lives on like any other, and the head hears of it when it is back.
void HeadRequests::create_later(ActorId actor, proto::RelayRequest request) {
  request.set_started(true);
  tasks_.spawn("create later", [this, actor, request = std::move(request)] {
    base::StatusOr<proto::RelayReply> asked = living(actor);
    do {
      if (!base::sleep_for(kAwayPoll)) return;
      asked = head_.relay(request, loop_.deadline(kHeadLimit));
    } while (is_away(asked.status()));
    begun(actor, asked);
  });
}

bool HeadRequests::start_here(ProcessId from, proto::ActorSpec spec) {
  const LocalProcess* process = processes_.find(from);
  if (!process || !head_.attached() || head_.read_only() || !start_here_) return false;
  if (!spec.has_job()) rpc::to_proto(process->job, spec.mutable_job());  // else perhaps another program's
  if (!start_here_(spec)) return false;
  starts_.begin(rpc::from_proto<ActorId>(spec.actor()));
  base::yield_fiber();  // its worker is told before the head
  return true;
}

// The head has answered of an actor that runs here already.
void HeadRequests::begun(ActorId actor, const base::StatusOr<proto::RelayReply>& answer) {
  auto held_back = starts_.end(actor);
  if (!is_created(answer, actor))
    return end_here_(actor, answer.ok() ? answer->failure() : failure_of(answer.status()));
  for (auto& info : held_back) report(info);
  if (cache_.holds(actor)) return;
  proto::NodeUp up;  // its handles came and went meanwhile, and the head has counted its creator
  *up.mutable_actor_handles()->add_dropped() = rpc::to_proto(actor);
  head_.send(std::move(up));
}

void HeadRequests::report(const proto::ActorInfo& info) {
  if (starts_.hold_back(info)) {
    // The end of its only life: the head could say nothing else.
    if (info.state() == proto::DEAD && info.max_restarts() == 0) learn(info, ActorCache::Source::kHere);
    return;
  }
  proto::NodeUp up;
  *up.mutable_actor() = info;
  head_.send(std::move(up));
}

void HeadRequests::watch(ProcessId from, const Question& question) {
  auto actor = rpc::from_proto<ActorId>(question.message.watch_actor().actor());
  auto watch = cache_.watch(actor, from);
  if (watch.known) {
    proto::RelayReply known;
    *known.mutable_actor() = *watch.known;
    return reply(from, question, known);
  }
  auto asked = relay(from, question);
  if (asked.ok() && asked->has_actor()) learn_from_answer(from, asked->actor(), ActorCache::Source::kHead);
  reply(from, question, asked);
}

// Who asked has the answer as its reply; others who watch are pushed to.
void HeadRequests::learn_from_answer(ProcessId asker, const proto::ActorInfo& info, ActorCache::Source source) {
  proto::ToWorker message;
  *message.mutable_actor() = info;
  for (ProcessId watcher : cache_.update(info, source))
    if (watcher != asker) processes_.send(watcher, 0, message);
}

void HeadRequests::unwatch(ProcessId from, const Question& question) {
  auto actor = rpc::from_proto<ActorId>(question.message.unwatch_actor().actor());
  if (cache_.unwatch(actor, from)) tell_unwatched(actor);
  reply(from, question, proto::RelayReply());
}

void HeadRequests::tell_unwatched(ActorId actor) {
  tasks_.spawn("unwatch", [this, actor] {
    proto::RelayRequest request;
    rpc::to_proto(processes_.node(), request.mutable_node());
    rpc::to_proto(actor, request.mutable_unwatch_actor()->mutable_actor());
    // Where the head does not hear it, it forgets our watches when this node attaches again.
    (void)head_.relay(request, loop_.deadline(kHeadLimit));
    // Who has begun to watch meanwhile may have been heard before this.
    if (!cache_.watchers(actor).empty()) watch_again(actor);
  });
}

void HeadRequests::watch_again(ActorId actor) {
  proto::RelayRequest request;
  rpc::to_proto(processes_.node(), request.mutable_node());
  rpc::to_proto(actor, request.mutable_watch_actor()->mutable_actor());
  auto reply = head_.relay(request, loop_.deadline(kHeadLimit));
  if (reply.ok() && reply->has_actor()) learn(reply->actor(), ActorCache::Source::kHead);
}

void HeadRequests::reply(ProcessId to, const Question& question, const base::StatusOr<proto::RelayReply>& reply) {
  if (question.call_id == 0) return;
  proto::ToWorker message;
  proto::Failure failure = reply.ok() ? reply->failure() : failure_of(reply.status());
  bool failed = failure.kind() != proto::FAILURE_UNSPECIFIED;
  switch (question.message.message_case()) {
    case proto::ToRaylet::kKeyValue:
      if (reply.ok()) *message.mutable_key_value_reply() = reply->key_value();
      if (failed) *message.mutable_key_value_reply()->mutable_failure() = failure;
      break;
    case proto::ToRaylet::kListNodes:
      if (failed)
        *message.mutable_done()->mutable_failure() = failure;
      else
        *message.mutable_nodes_reply() = reply->nodes();
      break;
    case proto::ToRaylet::kUnwatchActor:
      message.mutable_done();
      break;
    default:
      if (reply.ok() && reply->has_actor())
        *message.mutable_actor_reply()->mutable_actor() = reply->actor();
      else
        message.mutable_actor_reply();
      if (failed) *message.mutable_actor_reply()->mutable_failure() = failure;
  }
  processes_.send(to, question.call_id, message);
}

bool HeadRequests::hold_actors(ProcessId from, uint64_t call_id, const proto::HoldRefs& request) {
  proto::NodeUp up;
  for (const auto& actor : request.actors_held())
    if (cache_.hold(rpc::from_proto<ActorId>(actor), from)) *up.mutable_actor_handles()->add_held() = actor;
  for (const auto& actor : request.actors_dropped())
    if (cache_.drop(rpc::from_proto<ActorId>(actor), from)) *up.mutable_actor_handles()->add_dropped() = actor;
  if (up.actor_handles().held_size() != 0) marks_.told();
  const bool confirmed = call_id != 0 && request.confirm_actors();
  const HoldMarks::Mark mark = confirmed ? marks_.ask() : HoldMarks::Mark();
  if (mark.fresh) {
    up.mutable_actor_handles();
    up.set_request(mark.number);
  }
  if (up.has_actor_handles()) head_.send(std::move(up));
  if (marks_.known(mark.number)) return false;
  tasks_.spawn("confirm handles", [this, from, call_id, number = mark.number] { confirm(from, call_id, number); });
  return true;
}

// Calls go on without a head that is given up; when it is back it is told of all handles.
void HeadRequests::confirm(ProcessId to, uint64_t call_id, uint64_t mark) {
  while (!marks_.known(mark) && !head_.given_up() && !base::fiber_cancelled()) heard_.wait(loop_.deadline(kLookAgain));
  proto::ToWorker done;
  done.mutable_done();
  processes_.send(to, call_id, done);
}

void HeadRequests::on_mark(uint64_t number) {
  marks_.heard(number);
  heard_.notify_all();
}

void HeadRequests::process_gone(ProcessId process) {
  auto left = cache_.process_gone(process);
  for (ActorId actor : left.unwatched) tell_unwatched(actor);
  if (!left.dropped.empty()) {
    proto::NodeUp up;
    for (ActorId actor : left.dropped) *up.mutable_actor_handles()->add_dropped() = rpc::to_proto(actor);
    head_.send(std::move(up));
  }
  auto line = lines_.extract(process);
  if (line.empty()) return;
  tasks_.spawn("end requests",
               [line = std::move(line.mapped())] { line->questions.close(); });  // joins in its destructor
}

void HeadRequests::learn(const proto::ActorInfo& info, ActorCache::Source source) {
  proto::ToWorker message;
  *message.mutable_actor() = info;
  for (ProcessId watcher : cache_.update(info, source)) processes_.send(watcher, 0, message);
}

void HeadRequests::attached_again() {
  tell_still_here();
  for (ActorId actor : cache_.watched()) tasks_.spawn("watch again", [this, actor] { watch_again(actor); });
}

void HeadRequests::tell_still_here() {
  proto::NodeUp up;
  proto::StillHere& here = *up.mutable_still_here();  // told even where nothing is
  for (const Job* job : jobs_.own_jobs(processes_.node())) rpc::to_proto(job->id, here.add_jobs());
  for (ActorId actor : cache_.held()) rpc::to_proto(actor, here.add_actors_held());
  up.set_request(marks_.told_again());
  head_.send(std::move(up));
}

}  // namespace rayo::raylet
