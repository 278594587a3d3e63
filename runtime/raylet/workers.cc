#include "runtime/raylet/workers.h"

#include "runtime/base/text.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::raylet {
namespace {

using namespace std::chrono_literals;

constexpr base::Duration kIdleGrace = 500ms;  // for an idle worker to leave by itself
constexpr base::Duration kAheadWait = 2ms;    // a start takes the cores from whoever was just given a worker

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

proto::Failure failure_of(proto::FailureKind kind, std::string text) {
  proto::Failure failure;
  failure.set_kind(kind);
  failure.set_text(std::move(text));
  return failure;
}

}  // namespace

proto::Reason no_worker(NodeId node, const proto::Failure& why) {
  proto::Reason reason;
  reason.set_code("worker_start");
  reason.set_text(why.text());
  reason.set_nodes(1);
  rpc::to_proto(node, reason.mutable_node());
  return reason;
}

Workers::Workers(base::Loop& loop, Processes& processes, Jobs& jobs, WorkerStarter& starter, PoolLimits limits)
    : loop_(loop), processes_(processes), starter_(starter), pool_(limits) {
  starter_.set_listener({
      .started =
          [this](ProcessId process) {
            pool_.started(process, loop_.now());
            carry_out();
          },
      .adopted =
          [this](ProcessId process, JobId job) {
            pool_.adopt(process, job, loop_.now());
            carry_out();
          },
      .failed =
          [this](ProcessId process, const StartFailure& why) {
            pool_.start_failed(process, why);
            carry_out();
          },
  });
  processes_.on_end([this](const LocalProcess& process, const proto::DeathRecord&) {
    if (state_name(process.id) == "starting") return;  // the starter's `failed` follows, with the failure for who waits
    pool_.gone(process.id);
    carry_out();
  });
  jobs.on_end([this](JobId job, const std::string& why) {
    // First the reason of their end, which is the job's; what the pool says later does not change it.
    starter_.end_job(job, {proto::DRIVER_GONE, why}, kIdleGrace / 2);
    pool_.close_job(job, failure_of(proto::CANCELLED, why));
    carry_out();
  });
}

Workers::~Workers() = default;

Workers::Taken Workers::take(JobId job, WorkerPool::Use use, std::vector<std::string> environment,
                             base::TimePoint deadline) {
  Ticket ticket = next_ticket_++;
  base::OneShot<Taken> answer;
  waiting_[ticket] = &answer;
  pool_.want(ticket, job, use, std::move(environment));
  carry_out();
  if (!answer.is_set()) wanted_.notify_all();
  auto taken = answer.wait(deadline);
  waiting_.erase(ticket);
  if (taken) return *taken;
  pool_.cancel(ticket);
  carry_out();
  return {{}, {failure_of(proto::TIMEOUT, "no worker came up in time"), true}};
}

void Workers::release(ProcessId process) {
  pool_.release(process, loop_.now());
  carry_out();
}

void Workers::end(ProcessId process, const EndReason& reason, base::Duration grace) {
  starter_.end(process, reason, grace);
  pool_.retire(process, reason.text);
  carry_out();
}

void Workers::open_job(JobId job) {
  pool_.open_job(job, true);
  carry_out();
}

std::string Workers::state_name(ProcessId process) const { return pool_.state_name(process); }

void Workers::carry_out() {
  for (auto actions = pool_.take_actions(); !actions.empty(); actions = pool_.take_actions())
    for (auto& action : actions) carry_out(action);
  arm_expiry();
}

void Workers::carry_out(WorkerPool::Action& action) {
  std::visit(Overloaded{
                 [this](WorkerPool::Start& wanted) { start(wanted); },
                 [this](WorkerPool::Give& give) {
                   auto waiter = waiting_.find(give.ticket);
                   if (waiter == waiting_.end() || !waiter->second->set({give.process, {}}))
                     pool_.release(give.process, loop_.now());
                 },
                 [this](WorkerPool::Stop& stop) {
                   starter_.end(stop.process, {proto::STOPPED, stop.reason}, kIdleGrace);
                 },
                 [this](WorkerPool::Refuse& refuse) {
                   auto waiter = waiting_.find(refuse.ticket);
                   if (waiter != waiting_.end()) waiter->second->set({{}, refuse.why});
                 },
             },
             action);
}

void Workers::start(WorkerPool::Start& wanted) {
  if (!wanted.ahead) return starter_.start(wanted.process, wanted.job, std::move(wanted.environment));
  tasks_.spawn("start ahead", [this, process = wanted.process, job = wanted.job] {
    if (!wanted_.wait(loop_.deadline(kAheadWait)) && base::fiber_cancelled()) return;
    starter_.start(process, job, {});
  });
}

void Workers::arm_expiry() {
  base::TimePoint at = pool_.next_deadline();
  if (at == base::kForever) return expiry_.cancel();
  if (expiry_.pending()) return;  // it fires at some time before, and then again
  expiry_ = loop_.after(std::max<base::Duration>(at - loop_.now(), 1s), [this] {
    pool_.expire(loop_.now());
    carry_out();
  });
}

}  // namespace rayo::raylet
