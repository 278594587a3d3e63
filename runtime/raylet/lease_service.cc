#include "runtime/raylet/lease_service.h"

#include <algorithm>
#include <set>
#include <utility>

#include "runtime/base/ids.h"
#include "runtime/base/log.h"
#include "runtime/base/text.h"
#include "runtime/raylet/head_link.h"
#include "runtime/rpc/proto_demand.h"

namespace rayo::raylet {
namespace {

using namespace std::chrono_literals;

constexpr base::Duration kWorkerLimit = 60s;  // for a worker of a grant to come up, package transfer included
constexpr base::Duration kAskAgain = 200ms;   // before the head is asked again where it did not answer, or said nothing
constexpr base::Duration kNotHere = 1s;       // before this node tries again what it could start no worker for
constexpr size_t kLeasesPerCpu = 4;           // tasks that hold no CPU are many: a bound for their processes
constexpr size_t kLeasesAtLeast = 32;
constexpr size_t kLeasesAtMost =
    1000;  // those that wait included: a recursion without end is to end before the memory does

proto::Demand proto_of(const scheduler::Demand& demand) {
  proto::Demand out;
  *out.mutable_resources() = rpc::to_proto(demand.resources);
  *out.mutable_to_place() = rpc::to_proto(demand.to_place);
  out.set_gpu_memory_bytes(demand.gpu_memory_bytes);
  for (const auto& rule : demand.labels) {
    auto& label = *out.add_labels();
    label.set_key(rule.key);
    label.mutable_values()->Assign(rule.values.begin(), rule.values.end());
    label.set_negate(rule.negate);
  }
  rpc::to_proto(demand.node, out.mutable_node());
  out.set_node_soft(demand.node_soft);
  out.set_spread(demand.spread);
  return out;
}

}  // namespace

LeaseService::LeaseService(base::Loop& loop, OwnNode own, LeaseTable& table, Processes& processes, Workers& workers,
                           Outside outside)
    : loop_(loop),
      own_(std::move(own)),
      table_(table),
      processes_(processes),
      workers_(workers),
      outside_(std::move(outside)) {}

LeaseService::~LeaseService() = default;

void LeaseService::request(ProcessId from, const proto::RequestLeases& request) {
  LocalProcess* process = processes_.find(from);
  if (!process) return;
  LeaseWish wish;
  wish.process = from;
  wish.shape = request.shape();
  const auto program = rpc::from_proto<JobId>(request.job());
  wish.job = program ? program : process->job;
  wish.demand = rpc::from_proto(request.demand());
  wish.schedule_timeout_ms = request.demand().schedule_timeout_ms();
  wish.count = request.count();
  wish.depth = request.depth();
  wish.what = request.what();
  wish.since = loop_.now();
  wish.since_wall = base::system_clock().wall();
  if (auto bad = scheduler::check(wish.demand); !bad.ok()) {
    proto::LeaseGranted refused;
    refused.mutable_failure()->set_kind(proto::INVALID);
    refused.mutable_failure()->set_text(std::string(base::message(bad)));
    return send_granted(from, wish.shape, std::move(refused));
  }
  WishKey key{from, wish.shape};
  queue_.request(std::move(wish));
  if (!queue_.find(key)) withdraw(key);
  pump();
}

// Nobody wants it any more: the head is to forget it too.
void LeaseService::withdraw(const WishKey& key) {
  queue_.drop(key);
  auto asking = asking_.extract(key);
  if (asking.empty()) return;
  asking.mapped()->fiber.cancel();
  tasks_.spawn("withdraw", [asking = std::move(asking.mapped())] { asking->fiber.join(); });
}

void LeaseService::pump() {
  for (LeaseId lease : table_.next_taken_back()) {
    auto waiting = taking_back_.find(lease);
    if (waiting == taking_back_.end()) continue;
    proto::ToWorker message;
    message.mutable_done();
    processes_.send(waiting->second.process, waiting->second.call_id, message);
    taking_back_.erase(waiting);
  }
  for (const WishKey& key : queue_.order()) {
    while (queue_.find(key) && grant_here(key)) {
    }
    if (queue_.find(key)) ask_head(key);
  }
  outside_.resources_changed();
}

bool LeaseService::room_for_tasks() const {
  if (stopping_) return false;
  double cpus = table_.ledger().capacity().total().get("cpu").value();
  // Whoever waits may wait for a task that has yet to get a worker: counted, a deep recursion would wait for ever.
  const size_t running = table_.size() - table_.waiting();
  return table_.size() < kLeasesAtMost && running < std::max(kLeasesAtLeast, static_cast<size_t>(cpus) * kLeasesPerCpu);
}

bool LeaseService::grant_here(const WishKey& key, bool head_away) {
  const LeaseWish& wish = *queue_.find(key);
  if (wish.demand.spread && !head_away) return false;  // only the head knows where the last one went
  if (wish.not_here_until > loop_.now()) return false;
  // Who wants its CPUs back comes first.
  if (!table_.line_empty() || !room_for_tasks() || !allowed_here(wish.demand, own_.id, own_.labels)) return false;
  Lease lease{.id = base::random_id<LeaseId>(),
              .job = wish.job,
              .requester = wish.process,
              .requester_node = own_.id,
              .shape = wish.shape,
              .what = wish.what};
  LeaseId id = lease.id;
  if (!table_.grant(std::move(lease), wish.demand)) return false;
  tasks_.spawn("grant", [this, id, wish] {
    Found found = find_worker(id, loop_.deadline(kWorkerLimit));
    if (found.of_node) return seek_elsewhere(wish, found.granted.failure());
    send_granted(wish.process, wish.shape, std::move(found.granted));
  });
  queue_.granted(key);
  return true;
}

void LeaseService::seek_elsewhere(LeaseWish wish, const proto::Failure& why) {
  base::log().warn("no worker for {} here: {}", wish.what, why.text());
  if (!processes_.find(wish.process)) return;
  wish.count = 1;
  wish.not_here_until = loop_.deadline(kNotHere);
  queue_.put_back(std::move(wish));
  pump();
}

// In a fiber: gives the lease its worker, and tells it whom it works for. A lease without one has ended.
LeaseService::Found LeaseService::find_worker(LeaseId id, base::TimePoint deadline) {
  Found found;
  proto::LeaseGranted& granted = found.granted;
  const Lease* lease = table_.find(id);
  if (!lease) {  // its requester ended before this fiber had its first turn
    granted.mutable_failure()->set_kind(proto::CANCELLED);
    return found;
  }
  auto taken = workers_.take(lease->job, WorkerPool::Use::kTasks, {}, deadline);
  lease = table_.find(id);
  if (lease && taken.process) {
    table_.set_worker(id, taken.process);
    table_.confirm(id, loop_.now());
    if (LocalProcess* worker = processes_.find(taken.process)) worker->what = base::cat("task ", lease->what);
    proto::ToWorker message;
    rpc::to_proto(id, message.mutable_host_tasks()->mutable_lease());
    rpc::to_proto(lease->requester, message.mutable_host_tasks()->mutable_requester());
    *message.mutable_host_tasks()->mutable_resources() = rpc::to_proto(lease->resources);
    message.mutable_host_tasks()->mutable_devices()->Assign(lease->devices.begin(), lease->devices.end());
    processes_.send(taken.process, 0, message);
    rpc::to_proto(id, granted.mutable_lease());
    *granted.mutable_worker() = address_of(taken.process);
    return found;
  }
  if (taken.process) workers_.release(taken.process);  // the lease ended while its worker came up
  found.of_node = lease && !taken.process && taken.why.of_node;
  *granted.mutable_failure() = taken.why.failure;
  if (granted.failure().kind() == proto::FAILURE_UNSPECIFIED) granted.mutable_failure()->set_kind(proto::CANCELLED);
  if (granted.failure().kind() == proto::ACTOR_DIED) granted.mutable_failure()->set_kind(proto::TASK_SYSTEM_ERROR);
  if (table_.end(id)) tasks_.spawn("pump", [this] { pump(); });
  return found;
}

void LeaseService::send_granted(ProcessId to, uint64_t shape, proto::LeaseGranted granted) {
  granted.set_shape(shape);
  proto::ToWorker message;
  auto lease = rpc::from_proto<LeaseId>(granted.lease());
  *message.mutable_lease_granted() = std::move(granted);
  if (!lease) return void(processes_.send(to, 0, message));
  if (!processes_.send(to, 0, message)) return end_lease(lease, WorkerAfter::kGoesOn);
  table_.set_told(lease);
}

proto::PlaceLeasesRequest LeaseService::question(const LeaseWish& wish) const {
  proto::PlaceLeasesRequest request;
  rpc::to_proto(own_.id, request.mutable_node());
  rpc::to_proto(wish.process, request.mutable_process());
  rpc::to_proto(wish.job, request.mutable_job());
  *request.mutable_demand() = proto_of(wish.demand);
  request.mutable_demand()->set_schedule_timeout_ms(wish.schedule_timeout_ms);
  request.set_count(wish.count);
  request.set_what(wish.what);
  request.set_shape(wish.shape);
  return request;
}

// One question at a time for each wish: of two the head answers the earlier one with nothing, which would be asked again.
void LeaseService::ask_head(const WishKey& key) {
  auto& asking = asking_[key];
  if (!asking) asking = std::make_unique<Asking>();
  if (std::exchange(asking->under_way, true)) return;
  asking->fiber.spawn("place leases", [this, key, here = asking.get()] {
    const base::TimePoint asked = loop_.now();
    if (const LeaseWish* wish = queue_.find(key)) take_answer(key, outside_.place(question(*wish)), asked);
    here->under_way = false;
    if (!base::fiber_cancelled()) pump();
  });
}

// The head answers when it has placed at least one, or never will.
void LeaseService::take_answer(const WishKey& key, const base::StatusOr<proto::PlaceLeasesReply>& reply,
                               base::TimePoint asked) {
  // Withdrawn: a wish of this key is another one.
  if (base::fiber_cancelled() && (!reply.ok() || reply->leases().empty())) return;
  if (!reply.ok()) return without_head(key, reply.status());
  for (const auto& granted : reply->leases()) {
    auto lease = rpc::from_proto<LeaseId>(granted.lease());
    auto node = rpc::from_proto<NodeId>(granted.worker().node());
    if (node == own_.id && !table_.find(lease)) continue;  // the answer took so long that it has ended as lost
    if (node != own_.id) away_[lease] = {node, key.process, key.shape};
    queue_.granted(key);
    send_granted(key.process, key.shape, granted);
  }
  if (reply->has_failure() && reply->failure().kind() != proto::FAILURE_UNSPECIFIED) {
    proto::LeaseGranted refused;
    *refused.mutable_failure() = reply->failure();
    queue_.drop(key);
    send_granted(key.process, key.shape, std::move(refused));
  } else if (reply->leases().empty() && loop_.now() - asked < kAskAgain) {
    base::sleep_for(kAskAgain);
  }
}

// What is free here is still granted, and what is taken becomes free; what only another node could hold waits for
// nothing.
void LeaseService::without_head(const WishKey& key, const base::Status& why) {
  const LeaseWish* wish = queue_.find(key);
  bool never_here = wish && (!allowed_here(wish->demand, own_.id, own_.labels) ||
                             !table_.ledger().capacity().could_ever(wish->demand));
  if (never_here && why.code() == absl::StatusCode::kUnavailable) {
    proto::LeaseGranted refused;
    *refused.mutable_failure() = failure_of(base::within(
        why, base::cat("no lease for ", wish->what, ": this node cannot hold it, and the head does not answer")));
    queue_.drop(key);
    return send_granted(key.process, key.shape, std::move(refused));
  }
  if (!base::sleep_for(kAskAgain)) return;
  while (queue_.find(key) && grant_here(key, true)) {
  }
}

proto::GrantReply LeaseService::grant(const proto::Grant& request, base::TimePoint deadline) {
  proto::GrantReply reply;
  scheduler::Demand demand = rpc::from_proto(request.demand());
  std::vector<LeaseId> leases;
  for (int i = 0; i < request.count() && table_.line_empty() && room_for_tasks(); ++i) {
    Lease lease{.id = base::random_id<LeaseId>(),
                .job = rpc::from_proto<JobId>(request.job()),
                .requester = rpc::from_proto<ProcessId>(request.requester()),
                .requester_node = rpc::from_proto<NodeId>(request.from_node()),
                .what = request.what()};
    LeaseId id = lease.id;
    if (!table_.grant(std::move(lease), demand)) break;
    leases.push_back(id);
  }
  outside_.resources_changed();
  // Workers come up side by side.
  std::vector<Found> found(leases.size());
  base::TaskGroup group;
  for (size_t i = 0; i < leases.size(); ++i)
    group.spawn("grant worker", [this, &found, &leases, i, deadline] { found[i] = find_worker(leases[i], deadline); });
  group.join();
  for (auto& one : found) {
    if (!one.of_node) {
      *reply.add_leases() = std::move(one.granted);
    } else if (reply.reasons().empty()) {
      *reply.add_reasons() = no_worker(own_.id, one.granted.failure());
    }
  }
  *reply.mutable_free() = rpc::to_proto(table_.ledger().capacity().free());
  return reply;
}

void LeaseService::give_back(ProcessId, const proto::ReturnLease& request) {
  auto id = rpc::from_proto<LeaseId>(request.lease());
  auto away = away_.find(id);
  if (away == away_.end()) return end_lease(id, worker_after(request));
  proto::EndLeaseFromRequest end;
  *end.mutable_lease() = request.lease();
  end.set_worker_suspect(request.worker_suspect());
  end.set_retire(request.retire());
  outside_.end_lease_from(away->second.node, end);
  away_.erase(away);
}

void LeaseService::end_lease(LeaseId id, WorkerAfter worker) {
  auto lease = table_.end(id);
  if (!lease) return;
  taking_back_.erase(id);
  if (lease->worker && worker != WorkerAfter::kGoesOn) {
    const char* why = worker == WorkerAfter::kSuspect ? "the connection of its requester broke"
                                                      : "it has run as many tasks as max_calls says";
    workers_.end(lease->worker, {proto::STOPPED, why}, kEndGrace);
  } else if (lease->worker) {
    if (LocalProcess* worker = processes_.find(lease->worker)) worker->what.clear();
    workers_.release(lease->worker);
  }
  pump();
}

proto::CheckLeasesReply LeaseService::unknown_leases(const proto::CheckLeasesRequest& request) const {
  proto::CheckLeasesReply reply;
  for (const auto& lease : request.leases())
    if (!away_.contains(rpc::from_proto<LeaseId>(lease))) *reply.add_unknown() = lease;
  return reply;
}

void LeaseService::confirm_leases(base::Duration each) {
  for (const auto& [node, leases] : table_.unconfirmed(loop_.now() - each)) {
    if (node == own_.id) {
      for (LeaseId lease : leases) end_lost(lease);
      continue;
    }
    proto::CheckLeasesRequest request;
    for (LeaseId lease : leases) {
      table_.confirm(lease, loop_.now());  // asked once a span, whatever comes of it
      rpc::to_proto(lease, request.add_leases());
    }
    tasks_.spawn("confirm leases", [this, node = node, request = std::move(request)] {
      auto reply = outside_.check_leases(node, request);
      if (!reply) return;
      for (const auto& unknown : reply->unknown()) end_lost(rpc::from_proto<LeaseId>(unknown));
    });
  }
}

void LeaseService::end_lost(LeaseId lease) {
  base::log().warn("lease {} is ended: nobody heard of its grant", lease.hex());
  end_lease(lease, WorkerAfter::kGoesOn);
}

void LeaseService::lend_cpu(ProcessId from, uint64_t call_id, const proto::LendCpu& request) {
  auto id = rpc::from_proto<LeaseId>(request.lease());
  if (!request.take_back()) {
    table_.lend(id);
    return pump();
  }
  if (!table_.take_back(id)) {
    taking_back_[id] = {from, call_id};
    return;
  }
  proto::ToWorker message;
  message.mutable_done();
  processes_.send(from, call_id, message);
}

void LeaseService::process_gone(const LocalProcess& process) {
  std::set<WishKey> wished;
  for (const auto& [key, wish] : queue_.wishes())
    if (key.process == process.id) wished.insert(key);
  for (const auto& [key, asking] : asking_)  // also for what was served here meanwhile
    if (key.process == process.id) wished.insert(key);
  for (const WishKey& key : wished) withdraw(key);
  // Its own lease; what it had leased: those workers may be in the middle of its tasks, so they end.
  if (const Lease* own = table_.of_worker(process.id)) table_.end(own->id);
  for (LeaseId id : table_.of_requester(process.id)) end_lease(id, WorkerAfter::kSuspect);
  for (auto away = away_.begin(); away != away_.end();) {
    if (away->second.requester != process.id) {
      ++away;
      continue;
    }
    proto::EndLeaseFromRequest end;
    rpc::to_proto(away->first, end.mutable_lease());
    end.set_worker_suspect(true);
    outside_.end_lease_from(away->second.node, end);
    away = away_.erase(away);
  }
  pump();
}

void LeaseService::node_gone(NodeId node) {
  for (LeaseId id : table_.of_requester_node(node)) end_lease(id, WorkerAfter::kSuspect);
  std::erase_if(away_, [node](const auto& entry) { return entry.second.node == node; });
}

void LeaseService::job_gone(JobId job) {
  for (LeaseId id : table_.of_job(job)) table_.end(id);  // the workers end with the job
  pump();
}

std::vector<proto::PendingShape> LeaseService::pending() const {
  std::vector<proto::PendingShape> shapes;
  for (const auto& [key, wish] : queue_.wishes()) {
    proto::PendingShape shape;
    shape.set_kind("task");
    *shape.mutable_demand() = proto_of(wish.demand);
    shape.set_count(wish.count);
    shape.set_oldest_unix_us(
        std::chrono::duration_cast<std::chrono::microseconds>(wish.since_wall.time_since_epoch()).count());
    shape.set_example(wish.what);
    rpc::to_proto(wish.job, shape.mutable_job());
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

proto::ProcessAddress LeaseService::address_of(ProcessId process) const {
  proto::ProcessAddress address;
  rpc::to_proto(own_.id, address.mutable_node());
  rpc::to_proto(process, address.mutable_process());
  address.set_host_port(own_.address);
  address.set_machine(own_.machine);
  return address;
}

}  // namespace rayo::raylet
