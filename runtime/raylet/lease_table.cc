#include "runtime/raylet/lease_table.h"

#include <algorithm>

namespace rayo::raylet {

const Lease* LeaseTable::grant(Lease lease, const scheduler::Demand& demand) {
  if (const Lease* known = find(lease.id)) return known;
  const scheduler::Holding* holding = ledger_.acquire(lease.id, demand);
  if (!holding) return nullptr;
  lease.resources = holding->amounts;
  for (const auto& share : holding->devices) lease.devices.push_back(share.uuid);
  if (lease.worker) by_worker_[lease.worker] = lease.id;
  return &(leases_[lease.id] = std::move(lease));
}

const Lease* LeaseTable::find(LeaseId id) const {
  auto found = leases_.find(id);
  return found == leases_.end() ? nullptr : &found->second;
}

const Lease* LeaseTable::of_worker(ProcessId worker) const {
  auto found = by_worker_.find(worker);
  return found == by_worker_.end() ? nullptr : find(found->second);
}

void LeaseTable::set_worker(LeaseId id, ProcessId worker) {
  auto found = leases_.find(id);
  if (found == leases_.end()) return;
  found->second.worker = worker;
  by_worker_[worker] = id;
}

std::optional<Lease> LeaseTable::end(LeaseId id) {
  auto found = leases_.find(id);
  if (found == leases_.end()) return std::nullopt;
  Lease lease = std::move(found->second);
  leases_.erase(found);
  if (lease.worker) by_worker_.erase(lease.worker);
  std::erase(line_, id);
  ledger_.release(id);
  return lease;
}

template <class Predicate>
std::vector<LeaseId> LeaseTable::where(Predicate predicate) const {
  std::vector<LeaseId> ids;
  for (const auto& [id, lease] : leases_)
    if (predicate(lease)) ids.push_back(id);
  return ids;
}

std::vector<LeaseId> LeaseTable::of_requester(ProcessId requester) const {
  return where([&](const Lease& lease) { return lease.requester == requester; });
}

std::vector<LeaseId> LeaseTable::of_requester_node(NodeId node) const {
  return where([&](const Lease& lease) { return lease.requester_node == node; });
}

std::vector<LeaseId> LeaseTable::of_job(JobId job) const {
  return where([&](const Lease& lease) { return lease.job == job; });
}

std::map<NodeId, std::vector<LeaseId>> LeaseTable::unconfirmed(base::TimePoint since) const {
  std::map<NodeId, std::vector<LeaseId>> out;
  for (const auto& [id, lease] : leases_) {
    const bool asked_for = lease.requester_node && !lease.told;
    // Without a worker its grant is not told yet: nobody can know of it.
    if (asked_for && lease.worker && lease.confirmed <= since) out[lease.requester_node].push_back(id);
  }
  return out;
}

void LeaseTable::confirm(LeaseId id, base::TimePoint now) {
  auto found = leases_.find(id);
  if (found != leases_.end()) found->second.confirmed = now;
}

void LeaseTable::set_told(LeaseId id) {
  auto found = leases_.find(id);
  if (found != leases_.end()) found->second.told = true;
}

void LeaseTable::lend(LeaseId id) {
  std::erase(line_, id);
  if (find(id)) ledger_.lend_cpu(id);
}

size_t LeaseTable::waiting() const {
  return static_cast<size_t>(
      std::ranges::count_if(leases_, [this](const auto& entry) { return ledger_.lent(entry.first); }));
}

bool LeaseTable::take_back(LeaseId id) {
  if (!find(id)) return true;  // it has ended: nothing is held and nothing is to be waited for
  if (line_.empty() && ledger_.take_back_cpu(id)) return true;
  if (!ledger_.lent(id)) return true;
  if (std::find(line_.begin(), line_.end(), id) == line_.end()) line_.push_back(id);
  return false;
}

std::vector<LeaseId> LeaseTable::next_taken_back() {
  std::vector<LeaseId> done;
  while (!line_.empty() && ledger_.take_back_cpu(line_.front())) {
    done.push_back(line_.front());
    line_.pop_front();
  }
  return done;
}

}  // namespace rayo::raylet
