// Who holds what of one node: exact after any history (used + free = total). The raylet grants from it.
//
//   NodeLedger ledger(Capacity({{"cpu", Amount::of(8)}}, {{"GPU-1", 80LL << 30}}));
//   const Holding* held = ledger.acquire(lease, demand);   // nullptr: does not fit, capacity().why_not(demand) tells
//   ledger.release(lease);
//
// One owner (the loop thread). Every act can be repeated: acquire of a known lease answers what it holds, release of an
// unknown one is nothing.
#pragma once

#include <unordered_map>

#include "scheduler/capacity.h"

namespace rayo::scheduler {

class NodeLedger {
 public:
  explicit NodeLedger(Capacity capacity = {}) : capacity_(std::move(capacity)) {}

  // nullptr where it does not fit now. The pointer is valid until that lease is released.
  const Holding* acquire(LeaseId lease, const Demand& demand);
  const Holding* find(LeaseId lease) const;
  bool release(LeaseId lease);  // false: not known

  // A holder that waits gives its CPUs back for a while...
  void lend_cpu(LeaseId lease);
  // ...and takes them again: false where they are not free now. `force` takes them in any case (free may go below
  // zero).
  bool take_back_cpu(LeaseId lease, bool force = false);
  bool lent(LeaseId lease) const;

  void update_devices(std::vector<Device> devices) { capacity_.update_devices(std::move(devices)); }

  const Capacity& capacity() const { return capacity_; }
  size_t leases() const { return leases_.size(); }
  // The sum of what the leases hold now (lent CPUs left out), for checks.
  Resources used() const;

 private:
  struct Entry {
    Holding holding;
    Amount lent_cpu;
  };
  Capacity capacity_;
  std::unordered_map<LeaseId, Entry> leases_;
};

}  // namespace rayo::scheduler
