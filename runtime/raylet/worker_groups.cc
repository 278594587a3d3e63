#include "runtime/raylet/worker_groups.h"

#include <algorithm>
#include <fcntl.h>
#include <poll.h>
#include <set>
#include <signal.h>
#include <sstream>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/cgroup.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/loop/blocking.h"
#include "runtime/base/text.h"

namespace rayo::raylet {
namespace {

using base::cat;
using base::Path;

constexpr int kEndRounds = 100;  // of killing and removing, 1 ms apart: a killed process takes its time to be gone

// Control files are written by one system call each; nothing is created on a real one.
bool write_control(const Path& file, const std::string& text) {
  base::Fd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  return fd && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

std::vector<pid_t> members(const Path& group) {
  std::vector<pid_t> out;
  auto text = base::read_file(group / "cgroup.procs");
  if (!text.ok()) return out;
  std::istringstream words(*text);
  for (pid_t pid = 0; words >> pid;) out.push_back(pid);
  return out;
}

bool alive(const base::Fd& pidfd) {
  pollfd entry{pidfd.get(), POLLIN, 0};
  return ::poll(&entry, 1, 0) == 0;
}

}  // namespace

struct WorkerGroups::State {
  std::vector<Path> folders;
  // The thread's own.
  std::set<ProcessId> entered;
  std::vector<Path> leaving;  // not removable yet
  base::WorkThreads thread{"rayo-cgroups", 1};

  void enter(ProcessId process, pid_t pid, const base::Fd& pidfd) {
    if (!alive(pidfd)) return;
    entered.insert(process);
    for (const Path& folder : folders) {
      const Path group = folder / process.hex();
      const bool moved = ::mkdir(group.c_str(), 0755) == 0 && write_control(group / "cgroup.procs", cat(pid));
      if (!moved && alive(pidfd))  // one that ended meanwhile needs no group
        base::log().warn("worker {} (pid {}) has no control group under {}", process.hex(), pid, folder.string());
    }
    if (alive(pidfd)) return;
    // It ended meanwhile: its pid may be another's by now, who goes back where the raylet is.
    entered.erase(process);
    for (const Path& folder : folders)
      for (pid_t member : members(folder / process.hex()))
        write_control(folder.parent_path() / "cgroup.procs", cat(member));
  }

  void end(ProcessId process) {
    const bool ours = entered.erase(process) != 0;
    for (const Path& folder : folders) {
      const Path group = folder / process.hex();
      if (ours) kill_all(group);
      leaving.push_back(group);
    }
    std::erase_if(leaving, [](const Path& group) { return ::rmdir(group.c_str()) == 0 || errno == ENOENT; });
  }

  static void kill_all(const Path& group) {
    if (base::read_file(group / "cgroup.events").ok() && write_control(group / "cgroup.kill", "1")) return;
    for (pid_t member : members(group)) ::kill(member, SIGKILL);
  }

  void end_everything() {
    for (ProcessId process : std::set<ProcessId>(entered)) end(process);
    for (int round = 0; round < kEndRounds && !leaving.empty(); ++round) {
      for (const Path& group : leaving) kill_all(group);
      std::erase_if(leaving, [](const Path& group) { return ::rmdir(group.c_str()) == 0 || errno == ENOENT; });
      if (!leaving.empty()) ::usleep(1000);
    }
    for (const Path& folder : folders) ::rmdir(folder.c_str());
  }
};

WorkerGroups::WorkerGroups(const std::vector<Path>& parents, const std::string& name)
    : state_(std::make_unique<State>()) {
  for (const Path& parent : parents) {
    Path folder = parent / name;
    if (::mkdir(folder.c_str(), 0755) != 0) continue;
    // Version 2 counts memory below us where our own group was given the controller; else nobody does.
    if (base::read_file(folder / "cgroup.controllers").value_or("").find("memory") != std::string::npos)
      write_control(folder / "cgroup.subtree_control", "+memory");
    state_->folders.push_back(std::move(folder));
  }
}

WorkerGroups::~WorkerGroups() {
  state_->thread.run([state = state_.get()] { state->end_everything(); });
}

void WorkerGroups::enter(ProcessId process, pid_t pid) {
  if (state_->folders.empty()) return;
  base::Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd) return;
  state_->thread.run(
      [state = state_.get(), process, pid, pidfd = std::move(pidfd)] { state->enter(process, pid, pidfd); });
}

int64_t WorkerGroups::oom_kills(ProcessId process) const {
  for (const Path& folder : state_->folders)
    for (const char* file : {"memory.events", "memory.oom_control"}) {
      auto text = base::read_file(folder / process.hex() / file);
      const int64_t kills = text.ok() ? base::number_after(*text, "oom_kill") : -1;
      if (kills >= 0) return kills;
    }
  return -1;
}

void WorkerGroups::end(ProcessId process) {
  if (state_->folders.empty()) return;
  state_->thread.run([state = state_.get(), process] { state->end(process); });
}

const std::vector<Path>& WorkerGroups::folders() const { return state_->folders; }

}  // namespace rayo::raylet
