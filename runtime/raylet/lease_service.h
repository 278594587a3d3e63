// Leases of workers for tasks: what local processes ask for is granted here where it fits, else the head
// places it, asked once at a time for each wish; what other nodes' processes ask for comes as the head's Grant.
// Also gives back what ends hold, and lends CPUs of those who wait.
//
// Loop thread only; handlers of frames do not wait.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/base/loop/event.h"
#include "runtime/raylet/lease_table.h"
#include "runtime/raylet/local_queue.h"
#include "runtime/raylet/processes.h"
#include "runtime/raylet/workers.h"

namespace rayo::raylet {

// This node as others see it.
struct OwnNode {
  NodeId id;
  std::string address;       // HOST:PORT as published
  std::string data_address;  // the same for frames and objects; "": the same
  std::string machine;       // boot id
  std::string hostname;
  base::WallTime started{};
  scheduler::Labels labels;
};

// What becomes of a worker whose lease ends.
enum class WorkerAfter : uint8_t { kGoesOn, kSuspect, kRetired };
// As a ReturnLease or EndLeaseFromRequest says.
template <class Message>
WorkerAfter worker_after(const Message& message) {
  if (message.worker_suspect()) return WorkerAfter::kSuspect;
  return message.retire() ? WorkerAfter::kRetired : WorkerAfter::kGoesOn;
}

class LeaseService {
 public:
  // What it asks of the head and of other raylets (in fibers), and whom it tells that free resources changed.
  struct Outside {
    std::function<base::StatusOr<proto::PlaceLeasesReply>(const proto::PlaceLeasesRequest&)> place;
    std::function<void(NodeId, const proto::EndLeaseFromRequest&)> end_lease_from;
    // nullopt: the node did not answer.
    std::function<std::optional<proto::CheckLeasesReply>(NodeId, const proto::CheckLeasesRequest&)> check_leases;
    std::function<void()> resources_changed;
  };

  LeaseService(base::Loop& loop, OwnNode own, LeaseTable& table, Processes& processes, Workers& workers,
               Outside outside);
  ~LeaseService();

  // ---- local processes ----
  void request(ProcessId from, const proto::RequestLeases& request);
  void give_back(ProcessId from, const proto::ReturnLease& request);
  void lend_cpu(ProcessId from, uint64_t call_id, const proto::LendCpu& request);

  // ---- the head and other raylets ----
  proto::GrantReply grant(const proto::Grant& request, base::TimePoint deadline);  // in a fiber
  void end_lease(LeaseId lease, WorkerAfter worker);
  // The node stops: what is free from now on is nobody's.
  void stop_granting() { stopping_ = true; }
  // Of leases on another node: which of them no process here holds.
  proto::CheckLeasesReply unknown_leases(const proto::CheckLeasesRequest& request) const;
  // Asks those who hold leases here that were not confirmed for `each`, and ends what they do not know; and what the
  // head granted to a process of this node that was not told for so long.
  void confirm_leases(base::Duration each);
  void node_gone(NodeId node);
  void job_gone(JobId job);
  void process_gone(const LocalProcess& process);

  // Something was given back, or the head is there again: serves who waits.
  void pump();
  std::vector<proto::PendingShape> pending() const;
  proto::ProcessAddress address_of(ProcessId process) const;

 private:
  bool grant_here(const WishKey& key, bool head_away = false);
  void ask_head(const WishKey& key);
  void take_answer(const WishKey& key, const base::StatusOr<proto::PlaceLeasesReply>& reply, base::TimePoint asked);
  void without_head(const WishKey& key, const base::Status& why);
  proto::PlaceLeasesRequest question(const LeaseWish& wish) const;
  void send_granted(ProcessId to, uint64_t shape, proto::LeaseGranted granted);
  struct Found {
    proto::LeaseGranted granted;
    bool of_node = false;  // its failure is this node's: another one may have a worker for it
  };
  Found find_worker(LeaseId lease, base::TimePoint deadline);
  void seek_elsewhere(LeaseWish wish, const proto::Failure& why);
  bool room_for_tasks() const;
  void end_lost(LeaseId lease);
  void withdraw(const WishKey& key);

  base::Loop& loop_;
  OwnNode own_;
  LeaseTable& table_;
  Processes& processes_;
  Workers& workers_;
  Outside outside_;
  LocalQueue queue_;
  bool stopping_ = false;
  struct Away {
    NodeId node;
    ProcessId requester;
    uint64_t shape = 0;
  };
  std::unordered_map<LeaseId, Away> away_;  // leases on other nodes that our processes hold
  struct TakingBack {
    ProcessId process;
    uint64_t call_id = 0;
  };
  std::unordered_map<LeaseId, TakingBack> taking_back_;
  struct Asking {
    bool under_way = false;  // also where its wish was served here meanwhile, and where there is another one by now
    base::TaskGroup fiber;
  };
  std::map<WishKey, std::unique_ptr<Asking>> asking_;  // the head
  base::TaskGroup tasks_;
};

}  // namespace rayo::raylet
