#include "scheduler/node_ledger.h"

namespace rayo::scheduler {

namespace {
Holding cpu_only(Amount amount) { return {Resources{{"cpu", amount}}, {}}; }
}  // namespace

const Holding* NodeLedger::acquire(LeaseId lease, const Demand& demand) {
  if (const auto* known = find(lease)) return known;
  auto holding = capacity_.choose(demand);
  if (!holding) return nullptr;
  capacity_.take(*holding);
  return &leases_.emplace(lease, Entry{*std::move(holding), {}}).first->second.holding;
}

const Holding* NodeLedger::find(LeaseId lease) const {
  auto found = leases_.find(lease);
  return found == leases_.end() ? nullptr : &found->second.holding;
}

bool NodeLedger::release(LeaseId lease) {
  auto found = leases_.find(lease);
  if (found == leases_.end()) return false;
  auto& [holding, lent_cpu] = found->second;
  holding.amounts.set("cpu", holding.amounts.get("cpu") - lent_cpu);
  capacity_.give(holding);
  leases_.erase(found);
  return true;
}

void NodeLedger::lend_cpu(LeaseId lease) {
  auto found = leases_.find(lease);
  if (found == leases_.end() || found->second.lent_cpu.units != 0) return;
  found->second.lent_cpu = found->second.holding.amounts.get("cpu");
  capacity_.give(cpu_only(found->second.lent_cpu));
}

bool NodeLedger::take_back_cpu(LeaseId lease, bool force) {
  auto found = leases_.find(lease);
  if (found == leases_.end()) return true;
  auto& lent_cpu = found->second.lent_cpu;
  if (!force && capacity_.free().get("cpu") < lent_cpu) return false;
  capacity_.take(cpu_only(lent_cpu));
  lent_cpu = {};
  return true;
}

bool NodeLedger::lent(LeaseId lease) const {
  auto found = leases_.find(lease);
  return found != leases_.end() && found->second.lent_cpu.units != 0;
}

Resources NodeLedger::used() const {
  Resources out;
  for (const auto& [lease, entry] : leases_) {
    out += entry.holding.amounts;
    out -= Resources{{"cpu", entry.lent_cpu}};
  }
  return out;
}

}  // namespace rayo::scheduler
