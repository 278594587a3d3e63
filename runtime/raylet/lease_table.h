// The leases of this node: who holds which worker and which resources, on whose behalf. Exact: what a lease
// holds is taken from the node's ledger at grant() and given back at end(), whatever ended it, and once.
//
//   LeaseTable table(capacity);
//   if (const Lease* lease = table.grant({.id = id, .job = job, .requester = driver}, demand)) ...
//   if (auto ended = table.end(id)) pool.release(ended->worker, now);
//
// Each act may be repeated: a known lease is granted again as it stands, an unknown one ends as nothing. One
// owner (the loop).
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <rayo/id.h>

#include "runtime/base/clock.h"
#include "scheduler/node_ledger.h"

namespace rayo::raylet {

struct Lease {
  LeaseId id;
  JobId job;
  ProcessId requester;
  NodeId requester_node;
  uint64_t shape = 0;                // the requester's own number of the demand
  std::string what;                  // function or class, for people
  ActorId actor;                     // nil: tasks
  ProcessId worker;                  // nil until one was found
  std::vector<std::string> devices;  // UUIDs
  scheduler::Resources resources;
  base::TimePoint confirmed{};  // when it was granted, or its requester's node last knew of it
  bool told = false;            // its requester, a process of this node, was sent it
};

class LeaseTable {
 public:
  explicit LeaseTable(scheduler::Capacity capacity) : ledger_(std::move(capacity)) {}

  // nullptr: does not fit now. Valid until the lease ends.
  const Lease* grant(Lease lease, const scheduler::Demand& demand);
  const Lease* find(LeaseId id) const;
  const Lease* of_worker(ProcessId worker) const;
  void set_worker(LeaseId id, ProcessId worker);
  std::optional<Lease> end(LeaseId id);

  std::vector<LeaseId> of_requester(ProcessId requester) const;
  std::vector<LeaseId> of_requester_node(NodeId node) const;
  std::vector<LeaseId> of_job(JobId job) const;
  // Leases that other nodes hold and that were not confirmed since then, by node: what was said of them may have been
  // lost on its way, so they are to be asked. And this node's own that the head granted, and whose requester was not told.
  std::map<NodeId, std::vector<LeaseId>> unconfirmed(base::TimePoint since) const;
  void confirm(LeaseId id, base::TimePoint now);
  void set_told(LeaseId id);

  // The holder waits: its CPUs may serve others.
  void lend(LeaseId id);
  // Wants them back: true where it has them now; else it stands in line before every new lease
  // (next_taken_back).
  bool take_back(LeaseId id);
  // Leases in the line that have their CPUs again, now that something was given back.
  std::vector<LeaseId> next_taken_back();
  bool line_empty() const { return line_.empty(); }

  const scheduler::NodeLedger& ledger() const { return ledger_; }
  void update_devices(std::vector<scheduler::Device> devices) { ledger_.update_devices(std::move(devices)); }
  size_t size() const { return leases_.size(); }
  // How many of them have lent their CPUs.
  size_t waiting() const;

 private:
  template <class Predicate>
  std::vector<LeaseId> where(Predicate predicate) const;

  scheduler::NodeLedger ledger_;
  std::unordered_map<LeaseId, Lease> leases_;
  std::unordered_map<ProcessId, LeaseId> by_worker_;
  std::deque<LeaseId> line_;  // want their CPUs back
};

}  // namespace rayo::raylet
