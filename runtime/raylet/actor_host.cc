#include "runtime/raylet/actor_host.h"

#include "runtime/base/text.h"
#include "runtime/rpc/proto_demand.h"

namespace rayo::raylet {
namespace {

using namespace std::chrono_literals;

constexpr base::Duration kStartLimit = 60s;  // where the spec names none: the API's default start_timeout
constexpr base::Duration kCleanUp = 30s;     // the same for an actor that nobody waits for any more, as in Ray

int64_t unix_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(base::system_clock().wall().time_since_epoch()).count();
}

// Devices are this node's to choose: what the lease names is what the worker sees.
scheduler::Demand held_by(const proto::ActorSpec& spec) {
  scheduler::Demand demand = rpc::from_proto(spec.demand());
  demand.to_place = {};  // that was the head's question, asked when it placed the actor
  demand.node = {};
  demand.labels.clear();
  return demand;
}

}  // namespace

ActorHost::ActorHost(base::Loop& loop, LeaseTable& table, LeaseService& leases, Processes& processes, Workers& workers,
                     Tell tell)
    : loop_(loop), table_(table), leases_(leases), processes_(processes), workers_(workers), tell_(std::move(tell)) {}

ActorHost::~ActorHost() = default;

void ActorHost::end_fibers() {
  tasks_.cancel();
  tasks_.join();
}

void ActorHost::start(const proto::StartActor& request) {
  auto actor = rpc::from_proto<ActorId>(request.spec().actor());
  auto known = actors_.find(actor);
  if (known != actors_.end()) {
    if (known->second->info.incarnation() >= request.incarnation()) return tell_(known->second->info);
    replace(*known->second);
  }
  auto hosted = std::make_unique<Hosted>();
  auto& info = hosted->info;
  *info.mutable_actor() = request.spec().actor();
  info.set_incarnation(request.incarnation());
  info.set_name(request.spec().name());
  info.set_namespace_(request.spec().namespace_());
  info.set_class_name(request.spec().class_name());
  *info.mutable_job() = request.spec().job();
  *info.mutable_resources() = request.spec().demand().resources();
  info.set_max_restarts(request.spec().max_restarts());
  info.set_max_call_retries(request.spec().max_call_retries());
  info.set_max_pending_calls(request.spec().max_pending_calls());
  info.set_detached(request.spec().detached());
  hosted->lease = rpc::from_proto<LeaseId>(request.lease());
  hosted->soft_load = scheduler::soft_load(rpc::from_proto(request.spec().demand()));
  soft_load_ += hosted->soft_load;
  actors_[actor] = std::move(hosted);
  tasks_.spawn("start actor", [this, actor, request] { run(actor, request); });
}

// An older life, which the head has given up. What it holds goes back: with its process where it has one, else at once, since its
// fiber will find nobody when a worker comes.
void ActorHost::replace(Hosted& old) {
  if (old.worker) {
    workers_.end(old.worker, {proto::FENCED, "the actor's next life begins"}, kEndGrace);
  } else {
    table_.end(old.lease);
  }
  forget(rpc::from_proto<ActorId>(old.info.actor()));
}

void ActorHost::run(ActorId actor, const proto::StartActor& request) {
  uint32_t incarnation = request.incarnation();
  Hosted* hosted = find(actor, incarnation);
  if (!hosted || !reserve(*hosted, request)) return;
  auto limit =
      request.spec().start_timeout_ms() > 0 ? base::span_of_ms(request.spec().start_timeout_ms()) : kStartLimit;
  base::TimePoint deadline = loop_.deadline(limit);
  hosted->info.set_state(proto::STARTING);
  const auto& variables = request.spec().environment();
  auto taken = workers_.take(rpc::from_proto<JobId>(request.spec().job()), WorkerPool::Use::kActor,
                             {variables.begin(), variables.end()}, deadline);
  hosted = find(actor, incarnation);
  if (hosted && hosted->ended) {
    proto::Failure failure;
    failure.set_kind(proto::ACTOR_DIED);
    *failure.mutable_death() = hosted->why;
    failure.set_text(hosted->why.text());
    fail(actor, incarnation, std::move(failure));
    hosted = nullptr;
  }
  if (!taken.process && hosted && taken.why.of_node && loop_.now() < deadline) {
    *hosted->info.add_reasons() = no_worker(processes_.node(), taken.why.failure);
    return refuse(*hosted);
  }
  if (!taken.process) {
    if (hosted) fail(actor, incarnation, taken.why.failure);
    return;
  }
  if (!hosted) return workers_.end(taken.process, {proto::KILLED, "its actor was ended while it started"}, kEndGrace);
  hosted->worker = taken.process;
  table_.set_worker(hosted->lease, taken.process);
  if (construct(actor, incarnation, request, deadline)) tell(*find(actor, incarnation), proto::ALIVE);
}

// False: it does not fit (any more), and the head was told so.
bool ActorHost::reserve(Hosted& hosted, const proto::StartActor& request) {
  if (stopping_) {
    auto& reason = *hosted.info.add_reasons();
    reason.set_code("node_unavailable");
    reason.set_text("the node stops");
    refuse(hosted);
    return false;
  }
  scheduler::Demand demand = held_by(request.spec());
  Lease lease{
      .id = hosted.lease, .job = rpc::from_proto<JobId>(request.spec().job()), .what = request.spec().class_name()};
  lease.actor = rpc::from_proto<ActorId>(request.spec().actor());
  bool fits = table_.grant(std::move(lease), demand) != nullptr;
  leases_.pump();
  if (fits) return true;
  for (const auto& reason : table_.ledger().capacity().why_not(demand)) {
    rpc::to_proto(reason, hosted.info.add_reasons());
  }
  refuse(hosted);
  return false;
}

// Not here, for the reasons that stand in its info: the head places it on another node, or here again later.
void ActorHost::refuse(Hosted& hosted) {
  table_.end(hosted.lease);
  tell(hosted, proto::PENDING);
  forget(rpc::from_proto<ActorId>(hosted.info.actor()));
  leases_.pump();
}

bool ActorHost::construct(ActorId actor, uint32_t incarnation, const proto::StartActor& request,
                          base::TimePoint deadline) {
  Hosted* hosted = find(actor, incarnation);
  ProcessId worker = hosted->worker;
  LocalProcess* process = processes_.find(worker);
  if (process) {
    process->what = base::cat("actor ", request.spec().class_name());
    process->actor = actor;
    process->incarnation = incarnation;
    hosted->info.set_pid(process->pid);
  }
  *hosted->info.mutable_address() = leases_.address_of(worker);
  proto::ToWorker message;
  auto& host = *message.mutable_host_actor();
  *host.mutable_spec() = request.spec();
  host.set_incarnation(incarnation);
  *host.mutable_lease() = request.lease();
  if (const Lease* lease = table_.find(hosted->lease))
    host.mutable_devices()->Assign(lease->devices.begin(), lease->devices.end());
  processes_.send(worker, 0, message);
  if (on_hosted_) on_hosted_(actor, worker);
  auto outcome = hosted->constructed.wait(deadline);
  hosted = find(actor, incarnation);
  if (!hosted) return false;  // its process ended, and process_gone told it
  if (outcome && !outcome->has_failure()) return true;
  proto::Failure failure;
  if (outcome) {
    failure = outcome->failure();
  } else {
    failure.set_kind(proto::TIMEOUT);
    failure.set_text(
        base::cat("the constructor of ", request.spec().class_name(), " did not end within its start_timeout"));
    failure.set_next_step("give a longer start_timeout");
  }
  fail(actor, incarnation, std::move(failure));
  workers_.end(worker, {proto::KILLED, "its actor's constructor failed"}, kEndGrace);
  return false;
}

void ActorHost::started(ProcessId from, const proto::ActorStarted& message) {
  Hosted* hosted = find(rpc::from_proto<ActorId>(message.actor()), message.incarnation());
  if (hosted && hosted->worker == from) hosted->constructed.set(message);
}

void ActorHost::end(const proto::EndActor& request) {
  Hosted* hosted = find(rpc::from_proto<ActorId>(request.actor()), request.incarnation());
  if (!hosted) {
    // Unknown here: it is over, and the head may go on.
    proto::ActorInfo info;
    *info.mutable_actor() = request.actor();
    info.set_incarnation(request.incarnation());
    info.set_state(proto::DEAD);
    *info.mutable_death() = request.why();
    return tell_(info);
  }
  hosted->why = request.why();
  if (!hosted->worker) {
    hosted->ended = true;
    return;
  }
  const bool out_of_scope = request.why().kind() == proto::OUT_OF_SCOPE;
  workers_.end(hosted->worker, {request.why().kind(), request.why().text()}, out_of_scope ? kCleanUp : kEndGrace);
}

void ActorHost::process_gone(const LocalProcess& process, const proto::DeathRecord& death) {
  if (!process.actor) return;
  auto found = actors_.find(process.actor);
  if (found == actors_.end() || found->second->worker != process.id) return;
  Hosted& hosted = *found->second;
  bool starting = hosted.info.state() == proto::STARTING;
  *hosted.info.mutable_death() = death;
  hosted.info.mutable_death()->set_may_restart(death.kind() == proto::KILLED && hosted.why.may_restart());
  if (starting) {
    auto& failure = *hosted.info.mutable_failure();
    failure.set_kind(proto::ACTOR_DIED);
    failure.set_text(
        base::cat("the process ended during the constructor of ", hosted.info.class_name(), ": ", death.text()));
    *failure.mutable_death() = death;
  }
  hosted.info.clear_address();
  table_.end(hosted.lease);
  tell(hosted, proto::DEAD);
  forget(process.actor);
}

void ActorHost::fail(ActorId actor, uint32_t incarnation, proto::Failure failure) {
  Hosted* hosted = find(actor, incarnation);
  auto& death = *hosted->info.mutable_death();
  if (failure.has_death()) {
    death = failure.death();
  } else {
    death.set_at_unix_us(unix_us());
    rpc::to_proto(processes_.node(), death.mutable_node());
    death.set_kind(proto::START_FAILED);
    death.set_pid(hosted->info.pid());
    death.set_text(failure.text());
  }
  death.set_incarnation(incarnation);
  *hosted->info.mutable_failure() = std::move(failure);
  hosted->info.clear_address();
  table_.end(hosted->lease);
  tell(*hosted, proto::DEAD);
  forget(actor);
  leases_.pump();
}

ActorHost::Hosted* ActorHost::find(ActorId actor, uint32_t incarnation) {
  auto found = actors_.find(actor);
  return found == actors_.end() || found->second->info.incarnation() != incarnation ? nullptr : found->second.get();
}

void ActorHost::tell(Hosted& hosted, proto::ActorState state) {
  hosted.info.set_state(state);
  hosted.info.set_since_unix_us(unix_us());
  tell_(hosted.info);
}

// Its fiber may still wait on `constructed`: that ends first.
void ActorHost::forget(ActorId actor) {
  auto node = actors_.extract(actor);
  if (node.empty()) return;
  soft_load_ -= node.mapped()->soft_load;
  node.mapped()->constructed.set({});
  tasks_.spawn("forget actor", [hosted = std::move(node.mapped())] { base::yield_fiber(); });
}

std::vector<proto::ActorInfo> ActorHost::running() const {
  std::vector<proto::ActorInfo> infos;
  for (const auto& [actor, hosted] : actors_) infos.push_back(hosted->info);
  return infos;
}

}  // namespace rayo::raylet
