#include "runtime/raylet/worker_starter.h"

#include <algorithm>
#include <cstdlib>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/ids.h"
#include "runtime/base/log.h"
#include "runtime/base/text.h"
#include "runtime/raylet/interpreter.h"
#include "runtime/raylet/node_resources.h"
#include "runtime/raylet/verdict.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::raylet {
namespace {

using base::cat;
using namespace std::chrono_literals;

constexpr base::Duration kHelloLimit = 10s;    // from exec or fork to init; beyond it the death is start_failed
constexpr base::Duration kPackageLimit = 60s;  // for a package to arrive from another machine
constexpr base::Duration kSweepEach = 1s;      // a child that nobody knows at two sweeps is a stray
constexpr base::Duration kSweepAfter = 100ms;  // of a child's end: many that end together are one sweep

// NAME=VALUE of `more` instead of what has the same name: of two, getenv() answers the first.
std::vector<std::string> overridden(std::vector<std::string> variables, std::vector<std::string> more) {
  const auto name = [](std::string_view variable) { return variable.substr(0, variable.find('=')); };
  std::erase_if(variables, [&](const std::string& old) {
    return std::ranges::any_of(more, [&](const std::string& one) { return name(one) == name(old); });
  });
  std::ranges::move(more, std::back_inserter(variables));
  return variables;
}

proto::Failure start_failure(std::string text) {
  proto::Failure failure;
  failure.set_kind(proto::ACTOR_DIED);
  failure.set_text(std::move(text));
  failure.set_next_step("the worker's output tells more: rayo logs");
  return failure;
}

// Nothing of the program ran: the node's, unless its job has ended.
StartFailure not_begun(const base::Status& why) {
  const bool over = why.code() == absl::StatusCode::kCancelled || why.code() == absl::StatusCode::kNotFound;
  return {start_failure(std::string(base::message(why))), !over};
}

base::Status node_stops() { return base::failed(absl::StatusCode::kUnavailable, "its node stops"); }

ProcessEnd process_end(const base::ChildEnd& end) {
  return {.pid = end.pid,
          .exited = end.exited,
          .exit_code = end.exit_code,
          .signal = end.signal,
          .core_dumped = end.core_dumped,
          .rss_peak_bytes = end.rss_peak_bytes};
}

}  // namespace

WorkerStarter::WorkerStarter(base::Loop& loop, Processes& processes, Jobs& jobs, LogFiles& logs, base::Path socket,
                             OpenPackage open_package)
    : loop_(loop),
      processes_(processes),
      jobs_(jobs),
      logs_(logs),
      socket_(std::move(socket)),
      open_package_(std::move(open_package)),
      reaper_(loop) {
  jobs_.on_end([this](JobId job, const std::string&) { zygotes_.erase(job); });
}

WorkerStarter::~WorkerStarter() = default;

void WorkerStarter::end_fibers() {
  tasks_.cancel();
  tasks_.join();
}

void WorkerStarter::start(ProcessId process, JobId job, std::vector<std::string> environment) {
  tasks_.spawn("start worker", [this, process, job, environment = std::move(environment)] {
    const StartFailure why = try_start(process, job, environment);
    if (why.failure.kind() != proto::FAILURE_UNSPECIFIED) listener_.failed(process, why);
  });
}

// An empty failure: the child exists.
StartFailure WorkerStarter::try_start(ProcessId process, JobId id, const std::vector<std::string>& environment) {
  if (ending_) return not_begun(node_stops());
  auto ready = jobs_.await_ready(id, loop_.deadline(kHelloLimit));
  if (!ready.ok()) return not_begun(ready.status());
  Job job = **ready;  // a copy: the job may end while we wait
  base::TimePoint deadline = loop_.deadline(kPackageLimit);
  if (zygotes_[id].state == Zygote::State::kNone || zygotes_[id].state == Zygote::State::kFailed) {
    zygotes_[id] = Zygote{.state = Zygote::State::kStarting};
    if (auto begun = start_zygote(job); !begun.ok()) {
      zygotes_.erase(id);
      changed_.notify_all();
      return not_begun(begun);
    }
  }
  while (zygotes_.count(id) && zygotes_[id].state == Zygote::State::kStarting) {
    if (!changed_.wait(deadline)) break;
  }
  if (jobs_.ended(id)) return {start_failure("its job has ended")};
  auto zygote = zygotes_.find(id);
  if (zygote == zygotes_.end())
    return not_begun(base::failed(absl::StatusCode::kUnavailable, cat("the zygote of ", job.program, " is gone")));
  if (zygote->second.state == Zygote::State::kFailed) return zygote->second.why;
  auto begun = zygote->second.state == Zygote::State::kReady ? fork_child(process, zygote->second.process, environment)
                                                             : exec_child(process, job, environment, false);
  if (!begun.ok()) return not_begun(begun);
  await_hello(process);
  return {};
}

base::Status WorkerStarter::start_zygote(const Job& job) {
  auto process = base::random_id<ProcessId>();
  zygotes_[job.id].process = process;
  RAYO_RETURN_IF_ERROR(exec_child(process, job, {}, true));
  await_hello(process);
  return absl::OkStatus();
}

base::Status WorkerStarter::choose_program(const Job& job, SpawnRequest& request, base::Fd& file) {
  request.arguments = job.arguments.empty() ? std::vector<std::string>{job.program} : job.arguments;
  if (of_python(request.arguments)) {
    const char* search = std::getenv("PATH");
    RAYO_ASSIGN_OR_RETURN(request.program, find_interpreter(python_, request.arguments[0], search ? search : ""));
    request.arguments[0] = request.program;
    return absl::OkStatus();
  }
  RAYO_ASSIGN_OR_RETURN(file, open_package_(job.package, loop_.deadline(kPackageLimit)));
  request.program_fd = file.get();
  // While the package came the job may have ended, or this node: nobody would end what begins now.
  if (jobs_.ended(job.id)) return base::failed(absl::StatusCode::kCancelled, "its job has ended");
  if (ending_) return node_stops();
  return absl::OkStatus();
}

base::Status WorkerStarter::exec_child(ProcessId process, const Job& job, std::vector<std::string> environment,
                                       bool zygote) {
  SpawnRequest request;
  base::Fd program;
  RAYO_RETURN_IF_ERROR(choose_program(job, request, program));
  RAYO_ASSIGN_OR_RETURN(auto files, logs_.open(process));
  // Names as in runtime/worker/process.h, which a raylet does not include.
  environment.push_back(cat("RAYO_WORKER=", process.hex()));
  environment.push_back(cat("RAYO_WORKER_SOCKET=", socket_.string()));
  if (zygote) environment.push_back("RAYO_WORKER_ZYGOTE=1");
  request.environment = overridden(job.environment, std::move(environment));
  request.working_directory = job.working_directory;
  request.out_fd = files.out.get();
  request.error_fd = files.error.get();
  request.open_files = open_files_;
  RAYO_ASSIGN_OR_RETURN(pid_t pid, spawn_child(request));
  LocalProcess& entry = processes_.add(process, zygote ? proto::ZYGOTE : proto::WORKER, job.id);
  entry.log = logs_.path(process, false);
  children_[process] = Child{.job = job.id, .zygote = zygote, .oom_before = oom_kills(), .started = loop_.now()};
  watch(process, pid);
  return absl::OkStatus();
}

base::Status WorkerStarter::fork_child(ProcessId process, ProcessId zygote,
                                       const std::vector<std::string>& environment) {
  RAYO_ASSIGN_OR_RETURN(auto files, logs_.open(process));
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    return base::failed_errno(errno, "no socket for a worker");
  base::Fd ours(sockets[0]);
  std::vector<base::Fd> descriptors;
  descriptors.emplace_back(sockets[1]);
  descriptors.push_back(std::move(files.out));
  descriptors.push_back(std::move(files.error));
  proto::ToWorker message;
  rpc::to_proto(process, message.mutable_fork()->mutable_process());
  message.mutable_fork()->mutable_environment()->Assign(environment.begin(), environment.end());
  LocalProcess* parent = processes_.find(zygote);
  JobId job = parent ? parent->job : JobId{};
  if (!processes_.send(zygote, 0, message, std::move(descriptors)))
    return base::failed(absl::StatusCode::kUnavailable, "the zygote of this job is gone");
  LocalProcess& entry = processes_.add(process, proto::WORKER, job);
  entry.log = logs_.path(process, false);
  children_[process] = Child{.job = job, .oom_before = oom_kills(), .started = loop_.now()};
  new_session_(std::move(ours));
  return absl::OkStatus();
}

void WorkerStarter::fork_done(const proto::ForkDone& done) {
  auto process = rpc::from_proto<ProcessId>(done.process());
  auto found = children_.find(process);
  if (found == children_.end() || found->second.pid != 0) return;
  if (done.pid() > 0) {
    ::setpgid(static_cast<pid_t>(done.pid()), static_cast<pid_t>(done.pid()));
    return watch(process, static_cast<pid_t>(done.pid()));
  }
  children_.erase(found);
  proto::DeathRecord death =
      explain({}, {.node = processes_.node(), .reached_init = false, .at = base::system_clock().wall()});
  death.set_text(cat("the zygote could not fork: ", done.error()));
  processes_.end(process, death);
  listener_.failed(process, {start_failure(death.text()), true});
}

void WorkerStarter::watch(ProcessId process, pid_t pid) {
  children_[process].pid = pid;
  if (LocalProcess* entry = processes_.find(process)) entry->pid = pid;
  if (groups_) groups_->enter(process, pid);
  auto watched = reaper_.on_child_exit(pid, [this, process](const base::ChildEnd& end) { reaped(process, end); });
  if (watched.ok()) {
    if (children_[process].said_hello) listener_.started(process);
    return;
  }
  // Only a zygote that lies about a pid brings us here.
  base::log().error("worker {} (pid {}): {}", process.hex(), pid, base::message(watched));
  children_.erase(process);
  processes_.end(process, explain({.pid = pid}, {.node = processes_.node(), .at = base::system_clock().wall()}));
  listener_.failed(process, {start_failure("the worker's process is not ours")});
}

bool WorkerStarter::hello(ProcessId process, const proto::Hello& hello, pid_t) {
  auto found = children_.find(process);
  if (found == children_.end() || found->second.said_hello || jobs_.ended(found->second.job)) return false;
  Child& child = found->second;
  child.said_hello = true;
  if (!child.zygote) {
    // A forked one may speak before its zygote has told its pid: it has started when both are here.
    if (child.pid != 0) listener_.started(process);
    return true;
  }
  Zygote& zygote = zygotes_[child.job];
  bool fit = hello.kind() == proto::ZYGOTE && hello.threads() <= 1;
  zygote.state = fit ? Zygote::State::kReady : Zygote::State::kUnfit;
  if (!fit) {
    base::log().info("job {}: {} threads before rayo::init, so each worker is exec'd", child.job.hex(),
                     hello.threads());
    child.zygote = false;
    if (LocalProcess* entry = processes_.find(process)) processes_.set_kind(*entry, proto::WORKER);
    listener_.adopted(process, child.job);
  }
  changed_.notify_all();
  return true;
}

void WorkerStarter::await_hello(ProcessId process) {
  tasks_.spawn("await init", [this, process] {
    if (!base::sleep_for(kHelloLimit)) return;
    auto found = children_.find(process);
    if (found == children_.end() || found->second.said_hello) return;
    end(process, {proto::START_FAILED, "it did not reach rayo::init within 10 s"}, 0ms);
  });
}

void WorkerStarter::reaped(ProcessId process, const base::ChildEnd& end) {
  auto found = children_.find(process);
  if (found == children_.end()) return;
  Child child = found->second;
  children_.erase(found);
  ::kill(-end.pid, SIGKILL);  // what it left in its group
  LocalProcess* entry = processes_.find(process);
  EndContext context{.node = processes_.node(), .what = entry && !entry->what.empty() ? entry->what : "worker"};
  context.asked = child.asked.kind;
  context.asked_text = child.asked.text;
  context.reached_init = child.said_hello;
  context.incarnation = entry ? entry->incarnation : 0;
  context.overflowed = entry && entry->doorbell && entry->doorbell->overflowed();
  // Its own group counts for it alone; without one, what was killed in ours since it began was perhaps another.
  const int64_t own_kills = groups_ ? groups_->oom_kills(process) : -1;
  context.oom_kills = own_kills >= 0 ? own_kills : oom_kills() - child.oom_before;
  if (groups_) groups_->end(process);
  context.last_lines = logs_.tail(process);
  logs_.ended(process);
  context.at = base::system_clock().wall();
  proto::DeathRecord death = explain(process_end(end), context);
  processes_.end(process, death);
  if (child.zygote) zygote_gone(child, process, death);
  if (!child.said_hello && !child.zygote) {
    StartFailure why{start_failure(death.text()), ending_};
    *why.failure.mutable_death() = death;
    listener_.failed(process, why);
  }
  changed_.notify_all();
  sweep_strays();
}

void WorkerStarter::zygote_gone(const Child& child, ProcessId process, const proto::DeathRecord& death) {
  auto zygote = zygotes_.find(child.job);
  if (zygote == zygotes_.end() || zygote->second.process != process) return;
  bool failed = zygote->second.state == Zygote::State::kStarting;
  zygote->second.state = failed ? Zygote::State::kFailed : Zygote::State::kNone;
  zygote->second.why = {start_failure(death.text()), ending_};
  *zygote->second.why.failure.mutable_death() = death;
  // What it was asked to fork and did not answer for: nobody knows these children's pids (a sweep finds
  // them).
  std::vector<ProcessId> lost;
  for (const auto& [id, entry] : children_)
    if (entry.job == child.job && entry.pid == 0) lost.push_back(id);
  for (ProcessId id : lost) {
    children_.erase(id);
    processes_.end(id, death);
    listener_.failed(id, zygote->second.why);
  }
}

void WorkerStarter::end(ProcessId process, const EndReason& reason, base::Duration grace) {
  auto found = children_.find(process);
  if (found == children_.end()) return;
  Child& child = found->second;
  // The pool stops what it is told of: the patience of who has told it holds.
  if (child.asked.kind != proto::DEATH_UNSPECIFIED && child.asked.text == reason.text) return;
  if (child.asked.kind == proto::DEATH_UNSPECIFIED) child.asked = reason;
  if (grace > 0ms) {
    proto::ToWorker message;
    message.mutable_exit()->set_reason(reason.text);
    processes_.send(process, 0, message);
  }
  tasks_.spawn("end worker", [this, process, grace] {
    base::TimePoint deadline = loop_.deadline(grace);
    while (children_.count(process) && changed_.wait(deadline)) {
    }
    auto still = children_.find(process);
    if (still == children_.end() || still->second.pid == 0) return;
    if (::kill(-still->second.pid, SIGKILL) != 0) ::kill(still->second.pid, SIGKILL);
  });
}

void WorkerStarter::end_job(JobId job, const EndReason& reason, base::Duration grace) {
  std::vector<ProcessId> ends;
  for (const auto& [process, child] : children_)
    if (child.job == job) ends.push_back(process);
  for (ProcessId process : ends) end(process, reason, grace);
}

void WorkerStarter::await_job_gone(JobId job, base::TimePoint deadline) {
  auto left = [&] {
    return std::any_of(children_.begin(), children_.end(),
                       [job](const auto& child) { return child.second.job == job; });
  };
  while (left() && changed_.wait(deadline)) {
  }
}

void WorkerStarter::end_all(base::Duration grace, base::TimePoint deadline) {
  ending_ = true;
  for (ProcessId process : processes_.ids()) end(process, {proto::STOPPED, "its node stops"}, grace);
  while (!children_.empty() && changed_.wait(deadline)) {
  }
}

// Orphans of workers become our children, since we are their subreaper. A child of a zygote is unknown for a
// moment too, until its fork_done is read: only who is unknown at two sweeps is a stray.
void WorkerStarter::sweep_strays() {
  if (std::exchange(sweeping_, true)) return;
  tasks_.spawn("sweep", [this] {
    base::sleep_for(kSweepAfter);
    std::set<pid_t> seen;
    for (int round = 0; round < 2; ++round) {
      std::set<pid_t> unknown;
      for (pid_t pid : own_children()) {
        bool known = std::any_of(children_.begin(), children_.end(),
                                 [pid](const auto& child) { return child.second.pid == pid; });
        if (!known) unknown.insert(pid);
      }
      for (pid_t pid : unknown) {
        if (round == 0 || !seen.count(pid)) continue;
        ::kill(pid, SIGKILL);
        while (::waitpid(pid, nullptr, WNOHANG) == 0 && base::sleep_for(1ms)) {
        }
      }
      seen = std::move(unknown);
      if (seen.empty() || round == 1) break;
      if (!base::sleep_for(kSweepEach)) break;
    }
    sweeping_ = false;
  });
}

}  // namespace rayo::raylet
