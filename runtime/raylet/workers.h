// Workers as a fiber asks for them: take() waits until one of the job stands ready. The shell of WorkerPool.
//
//   auto taken = workers.take(job, WorkerPool::Use::kActor, environment, deadline);
//   if (!taken.process) return refuse(taken.why);
//   ... workers.release(taken.process);  or  workers.end(taken.process, {proto::KILLED, "..."}, 200ms);
//
// Loop thread only.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/base/loop/event.h"
#include "runtime/raylet/worker_pool.h"
#include "runtime/raylet/worker_starter.h"

namespace rayo::raylet {

// Why a node refuses what it could start no worker for, in the words of `status` and `why`.
proto::Reason no_worker(NodeId node, const proto::Failure& why);

// For a worker to leave by itself, between Exit and SIGKILL.
inline constexpr base::Duration kEndGrace = std::chrono::milliseconds(200);

class Workers {
 public:
  Workers(base::Loop& loop, Processes& processes, Jobs& jobs, WorkerStarter& starter, PoolLimits limits);
  ~Workers();

  struct Taken {
    ProcessId process;
    StartFailure why;  // where there is no process
  };
  Taken take(JobId job, WorkerPool::Use use, std::vector<std::string> environment, base::TimePoint deadline);
  // Its lease ended in good order.
  void release(ProcessId process);
  void end(ProcessId process, const EndReason& reason, base::Duration grace);

  // A job's program can be run here: its zygote and spare workers may be started ahead.
  void open_job(JobId job);

  std::string state_name(ProcessId process) const;
  int count() const { return pool_.workers(); }

 private:
  void carry_out();
  void carry_out(WorkerPool::Action& action);
  void start(WorkerPool::Start& wanted);
  void arm_expiry();

  base::Loop& loop_;
  Processes& processes_;
  WorkerStarter& starter_;
  WorkerPool pool_;
  Ticket next_ticket_ = 1;
  std::unordered_map<Ticket, base::OneShot<Taken>*> waiting_;
  base::Timer expiry_;
  base::WaitList wanted_;  // somebody waits for a worker: what was put off starts now
  base::TaskGroup tasks_;
};

}  // namespace rayo::raylet
