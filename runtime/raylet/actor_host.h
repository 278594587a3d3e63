// The actors that run on this node: started on the head's word in a worker of their own, ended on its word or
// with their process, and told of to the head (ALIVE with address, DEAD with record, or back to PENDING where
// they do not fit). DEAD is said only when the process is reaped.
//
// Loop thread only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/loop/event.h"
#include "runtime/raylet/lease_service.h"

namespace rayo::raylet {

class ActorHost {
 public:
  // `tell` brings an ActorInfo to the head and to this node's own watchers.
  using Tell = std::function<void(const proto::ActorInfo&)>;
  // Its worker was told to make it: what the actor's callers will need can be prepared while the constructor runs.
  using OnHosted = std::function<void(ActorId, ProcessId worker)>;

  ActorHost(base::Loop& loop, LeaseTable& table, LeaseService& leases, Processes& processes, Workers& workers,
            Tell tell);
  ~ActorHost();
  // Ends its fibers, which call into other parts, while those are there. In a fiber.
  void end_fibers();
  void on_hosted(OnHosted handler) { on_hosted_ = std::move(handler); }

  // Spawns a fiber. The same incarnation again: its state is told again.
  void start(const proto::StartActor& request);
  void end(const proto::EndActor& request);
  // The node stops: what is to start from now on goes back to the head.
  void refuse_all() { stopping_ = true; }
  // From the worker: its constructor ended.
  void started(ProcessId from, const proto::ActorStarted& message);
  void process_gone(const LocalProcess& process, const proto::DeathRecord& death);

  // For Register: what runs or starts here.
  std::vector<proto::ActorInfo> running() const;
  // What they weigh beyond what they hold (scheduler::soft_load), as the head reckons it.
  const scheduler::Resources& soft_load() const { return soft_load_; }

 private:
  struct Hosted {
    proto::ActorInfo info;
    LeaseId lease;
    scheduler::Resources soft_load;
    ProcessId worker;
    base::OneShot<proto::ActorStarted> constructed;
    proto::DeathRecord why;  // set by end(): overrides what the status says
    bool ended = false;      // by end(), before it had a worker
  };

  void replace(Hosted& old);
  void run(ActorId actor, const proto::StartActor& request);
  bool reserve(Hosted& hosted, const proto::StartActor& request);
  bool construct(ActorId actor, uint32_t incarnation, const proto::StartActor& request, base::TimePoint deadline);
  void fail(ActorId actor, uint32_t incarnation, proto::Failure failure);
  void refuse(Hosted& hosted);
  Hosted* find(ActorId actor, uint32_t incarnation);
  void tell(Hosted& hosted, proto::ActorState state);
  void forget(ActorId actor);

  base::Loop& loop_;
  LeaseTable& table_;
  LeaseService& leases_;
  Processes& processes_;
  Workers& workers_;
  Tell tell_;
  OnHosted on_hosted_;
  std::map<ActorId, std::unique_ptr<Hosted>> actors_;
  scheduler::Resources soft_load_;
  bool stopping_ = false;
  base::TaskGroup tasks_;
};

}  // namespace rayo::raylet
