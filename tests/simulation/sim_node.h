// A raylet of the simulation: the real ledger, and just enough behaviour to be right or to fail. It talks by
// two queues that are lost with its stream.
#pragma once

#include <deque>
#include <map>
#include <set>

#include "runtime/proto/head.pb.h"
#include "scheduler/node_ledger.h"

namespace rayo::simulation {

struct Running {
  uint32_t incarnation = 0;
  LeaseId lease;
  bool alive = false;  // its constructor has ended
};

class SimNode {
 public:
  SimNode(NodeId id, scheduler::Capacity capacity) : id_(id), empty_(std::move(capacity)), ledger_(empty_) {}

  // ---- faults ----
  void crash();        // the raylet and all that it ran are gone
  void start_again();  // a new life under the same id
  void break_stream();
  void partition() { partitioned_ = true, break_stream(); }
  void heal() { partitioned_ = false; }
  // One of its actors ends with a signal; false where none runs.
  bool kill_one(uint64_t pick);

  // ---- behaviour ----
  proto::Register register_message() const;
  void attached();
  void tell_still_here();
  void handle_one();                              // of the inbox
  void start_here(const proto::ActorSpec& spec);  // its creator's node, before the head has written it down
  void construct_one(bool fails);                 // an actor that is starting is alive, or its constructor threw
  void report_if_changed();
  void begin_job(JobId job);  // a driver comes, and goes
  void end_job(JobId job);
  void hold(ActorId actor);  // its first handle of it, and its last
  void drop(ActorId actor);
  void end_lease(LeaseId lease);
  void expire_leases();  // nobody used them for a while: the raylet's own rule

  NodeId id() const { return id_; }
  uint64_t incarnation() const { return incarnation_; }
  bool up() const { return up_; }
  bool reachable() const { return up_ && !partitioned_; }
  bool connected() const { return connected_; }
  bool joined() const { return joined_; }
  const std::map<ActorId, Running>& running() const { return running_; }
  const scheduler::NodeLedger& ledger() const { return ledger_; }
  const std::map<LeaseId, ProcessId>& granted() const { return granted_; }
  const std::set<JobId>& jobs() const { return jobs_; }
  const std::set<ActorId>& held() const { return held_; }
  std::deque<proto::NodeDown> inbox;
  std::deque<proto::NodeUp> outbox;

 private:
  void start_actor(const proto::NodeDown& down);
  void end_actor(const proto::EndActor& order);
  void grant(const proto::NodeDown& down);
  proto::ActorInfo info_of(ActorId id, const Running& running) const;
  void say(proto::NodeUp up);
  void say_dead(ActorId id, const Running& running, proto::DeathKind kind);

  NodeId id_;
  scheduler::Capacity empty_;
  scheduler::NodeLedger ledger_;
  uint64_t incarnation_ = 1;
  bool up_ = true, partitioned_ = false, connected_ = false, changed_ = false;
  bool joined_ = false;  // in this life
  uint64_t applied_ = 0;
  uint64_t leases_made_ = 0;
  std::map<ActorId, Running> running_;
  std::map<LeaseId, ProcessId> granted_;
  std::set<JobId> jobs_;
  std::set<ActorId> held_;
};

}  // namespace rayo::simulation
