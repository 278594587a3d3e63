// Which worker processes of each job are started, given out, kept and ended on this node. Decides only:
// events go in, actions come out, and the shell (worker_starter.h) carries them out.
//
//   WorkerPool pool({});
//   pool.open_job(job, now);
//   pool.want(ticket, job, WorkerPool::Use::kActor, {}, now);
//   for (auto& action : pool.take_actions()) ...        // Start{process, job}; later started(process) -> Give{ticket, process}
//
// Workers belong to a job: they carry its program, arguments, directory and environment. A worker that hosted
// an actor is never used again; one that ran tasks goes back to idle. Each event may come twice. One owner
// (the loop thread).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include <rayo/id.h>

#include "runtime/base/clock.h"
#include "runtime/proto/common.pb.h"

namespace rayo::raylet {

using Ticket = uint64_t;  // one wish for a worker, the caller's own number

// Why no worker came up.
struct StartFailure {
  proto::Failure failure;
  bool of_node = false;  // nothing of the program ran: another node, or this one later, may well run it
};

struct PoolLimits {
  int starting = 4;                                     // at a time and job: more only take the cores from each other
  int spare = 2;                                        // idle ones of a job kept ahead of use
  int idle_max = 16;                                    // idle ones of a job kept at all
  base::Duration idle_time = std::chrono::seconds(60);  // after which those beyond the spare ones end
};

class WorkerPool {
 public:
  enum class Use { kIdle, kActor, kTasks };

  struct Start {
    ProcessId process;
    JobId job;
    std::vector<std::string> environment;  // KEY=VALUE beyond the job's
    bool ahead = false;                    // nobody waits for it, and somebody may just have been given one
  };
  struct Give {
    Ticket ticket = 0;
    ProcessId process;
  };
  struct Stop {
    ProcessId process;
    std::string reason;
  };
  struct Refuse {
    Ticket ticket = 0;
    StartFailure why;
  };
  using Action = std::variant<Start, Give, Stop, Refuse>;

  explicit WorkerPool(PoolLimits limits) : limits_(limits) {}

  // The job's program can be run here from now on. Spare workers are started at once where `prestart`.
  void open_job(JobId job, bool prestart);
  // Ends all of its workers; its tickets are refused with `why`.
  void close_job(JobId job, const proto::Failure& why);

  // Answered by Give or Refuse. A worker with an environment of its own is started for this ticket alone.
  void want(Ticket ticket, JobId job, Use use, std::vector<std::string> environment = {});
  void cancel(Ticket ticket);

  void started(ProcessId process, base::TimePoint now);  // it said hello
  void adopt(ProcessId process, JobId job,
             base::TimePoint now);  // a worker that was not asked for (a zygote that cannot fork)
  // Never came up: what waits for this job is refused with `why`, since the next one would fail the same way.
  void start_failed(ProcessId process, const StartFailure& why);
  void release(ProcessId process, base::TimePoint now);  // its lease ended in good order: idle again
  void retire(ProcessId process,
              const std::string& reason);  // to be ended: its actor is gone, its connection is suspect
  void gone(ProcessId process);            // reaped

  // Ends what was idle for too long. Call at next_deadline().
  void expire(base::TimePoint now);
  base::TimePoint next_deadline() const;

  std::vector<Action> take_actions();

  bool knows(ProcessId process) const { return workers_.count(process) != 0; }
  const char* state_name(ProcessId process) const;  // starting, idle, actor, tasks, stopping; "" unknown
  int workers() const { return static_cast<int>(workers_.size()); }

 private:
  enum class State { kStarting, kIdle, kGiven, kStopping };
  struct Worker {
    JobId job;
    State state = State::kStarting;
    Use use = Use::kIdle;
    Ticket bound = 0;  // the only ticket it may go to; 0: any
    base::TimePoint idle_since{};
  };
  struct Wish {
    Ticket ticket = 0;
    Use use = Use::kIdle;
    std::vector<std::string> environment;
    bool starting = false;  // its own process was asked for
  };
  struct Job {
    std::deque<Wish> wishes;
    bool prestart = false;
  };

  void balance(JobId id);
  void give(JobId id, Job& job);
  void start(JobId id, std::vector<std::string> environment, Ticket bound, bool ahead);
  void stop(ProcessId process, Worker& worker, const std::string& reason);
  void became_idle(ProcessId process, Worker& worker, base::TimePoint now);
  int count(JobId job, State state, bool unbound) const;

  PoolLimits limits_;
  std::map<JobId, Job> jobs_;
  std::unordered_map<ProcessId, Worker> workers_;
  std::deque<ProcessId> idle_;  // longest idle first
  std::vector<Action> actions_;
};

}  // namespace rayo::raylet
