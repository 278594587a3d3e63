// Starting processes of a job: the first by exec of its package (of a Python driver, of an interpreter of this node:
// interpreter.h), and where that one has a single thread it is the job's zygote and forks the rest; else each is exec'd. Owns the children: it reaps them, and explains
// each end to Processes.
//
//   starter.start(process, job, {});   // in a fiber; later Processes has it with its wire, or it ends as start_failed
//   starter.end(process, {proto::KILLED, "rayo::kill"}, 200ms);
//
// A child has a process group of its own and dies with the raylet. Loop thread only.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <sys/resource.h>
#include <unordered_map>
#include <vector>

#include "runtime/base/loop/event.h"
#include "runtime/base/loop/process.h"
#include "runtime/raylet/jobs.h"
#include "runtime/raylet/log_files.h"
#include "runtime/raylet/package_store.h"
#include "runtime/raylet/processes.h"
#include "runtime/raylet/spawn.h"
#include "runtime/raylet/worker_groups.h"
#include "runtime/raylet/worker_pool.h"

namespace rayo::raylet {

// Why we end a process: goes into its death record.
struct EndReason {
  proto::DeathKind kind = proto::DEATH_UNSPECIFIED;
  std::string text;
};

class WorkerStarter {
 public:
  // Events for the pool: a worker said hello; a zygote that cannot fork has become a worker; a worker never
  // came up.
  struct Listener {
    std::function<void(ProcessId)> started;
    std::function<void(ProcessId, JobId)> adopted;
    std::function<void(ProcessId, const StartFailure&)> failed;
  };
  // How a job's package is opened for exec (in a fiber).
  using OpenPackage = std::function<base::StatusOr<base::Fd>(PackageId, base::TimePoint deadline)>;

  WorkerStarter(base::Loop& loop, Processes& processes, Jobs& jobs, LogFiles& logs, base::Path socket,
                OpenPackage open_package);
  ~WorkerStarter();
  // Ends its fibers, which call into other parts, while those are there. In a fiber.
  void end_fibers();
  void set_listener(Listener listener) { listener_ = std::move(listener); }

  // Spawns a fiber that does it.
  void start(ProcessId process, JobId job, std::vector<std::string> environment);

  // A session's first frame: false where this raylet started no such process, or another pid says so.
  bool hello(ProcessId process, const proto::Hello& hello, pid_t peer_pid);
  void fork_done(const proto::ForkDone& done);
  // Each worker gets a group of its own there; outlives this.
  void use_groups(WorkerGroups& groups) { groups_ = &groups; }
  // How many files a worker may have open; not called: as many as this process.
  void use_open_files(const rlimit& limit) { open_files_ = limit; }
  // Which Python runs Python's workers (find_interpreter); not called: the driver's, or that of PATH.
  void use_python(std::string python) { python_ = std::move(python); }
  // The child's end of a socket that a zygote's child inherits; the other end becomes its session.
  using NewSession = std::function<void(base::Fd)>;
  void on_new_session(NewSession handler) { new_session_ = std::move(handler); }

  // Exit frame, and SIGKILL to its group after `grace`. The first reason stays.
  void end(ProcessId process, const EndReason& reason, base::Duration grace);
  void end_job(JobId job, const EndReason& reason, base::Duration grace);
  // In a fiber: until no process of the job is left.
  void await_job_gone(JobId job, base::TimePoint deadline);
  // Kills everything and waits until all of it is reaped, for the raylet's own end.
  void end_all(base::Duration grace, base::TimePoint deadline);

  int children() const { return static_cast<int>(children_.size()); }

 private:
  struct Child {
    JobId job;
    pid_t pid = 0;
    bool zygote = false;
    bool said_hello = false;
    EndReason asked;
    int64_t oom_before = 0;
    base::TimePoint started{};
  };
  struct Zygote {
    enum class State { kNone, kStarting, kReady, kUnfit, kFailed } state = State::kNone;
    ProcessId process;
    StartFailure why;  // kFailed
  };

  StartFailure try_start(ProcessId process, JobId job, const std::vector<std::string>& environment);
  base::Status start_zygote(const Job& job);
  base::Status choose_program(const Job& job, SpawnRequest& request, base::Fd& file);
  base::Status exec_child(ProcessId process, const Job& job, std::vector<std::string> environment, bool zygote);
  base::Status fork_child(ProcessId process, ProcessId zygote, const std::vector<std::string>& environment);
  void watch(ProcessId process, pid_t pid);
  void reaped(ProcessId process, const base::ChildEnd& end);
  void await_hello(ProcessId process);
  void zygote_gone(const Child& child, ProcessId process, const proto::DeathRecord& death);
  void sweep_strays();

  base::Loop& loop_;
  Processes& processes_;
  Jobs& jobs_;
  LogFiles& logs_;
  base::Path socket_;
  OpenPackage open_package_;
  Listener listener_;
  WorkerGroups* groups_ = nullptr;
  std::optional<rlimit> open_files_;
  std::string python_;
  NewSession new_session_;
  std::unordered_map<ProcessId, Child> children_;
  std::map<JobId, Zygote> zygotes_;
  base::WaitList changed_;
  bool sweeping_ = false;
  bool ending_ = false;  // end_all was called: nothing is started any more
  base::ChildReaper reaper_;
  base::TaskGroup tasks_;
};

}  // namespace rayo::raylet
