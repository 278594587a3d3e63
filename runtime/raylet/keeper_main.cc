// rayo-keeper: the parent of one raylet (or of the head). When its child ends, however that came, it ends
// every process that the child left behind; when the keeper itself ends, the child is told by its
// parent-death signal and ends its tree and itself.
//
//   rayo-keeper [--pid-file F] [--ready-fd N] -- PROGRAM ARGS...
//
// PROGRAM is run as `PROGRAM ARGS... --ready-fd N`: the keeper closes its own copy of N, so the reader sees
// the end of the pipe where the program died before it said anything. SIGTERM, SIGINT and SIGHUP are passed
// on. Exit code: the child's, or 128 + signal. Log lines go to stderr.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <vector>

#include "runtime/base/cgroup.h"
#include "runtime/base/log.h"
#include "runtime/base/session.h"
#include "runtime/base/text.h"

namespace {

struct Arguments {
  std::string pid_file;
  std::string ready_fd;
  std::vector<std::string> program;
};

bool parse(int argc, char** argv, Arguments& out) {
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i];
    if (word == "--") {
      out.program.assign(argv + i + 1, argv + argc);
      return !out.program.empty();
    }
    if (i + 1 >= argc) return false;
    if (word == "--pid-file") {
      out.pid_file = argv[++i];
    } else if (word == "--ready-fd") {
      out.ready_fd = argv[++i];
    } else {
      return false;
    }
  }
  return false;
}

[[noreturn]] void become(const Arguments& arguments, pid_t keeper, const sigset_t& old_mask) {
  // A keeper that died between fork and here would never be noticed: its pid is compared after the signal is
  // armed.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != keeper) _exit(1);
  sigprocmask(SIG_SETMASK, &old_mask, nullptr);
  std::vector<std::string> words = arguments.program;
  if (!arguments.ready_fd.empty()) {
    words.push_back("--ready-fd");
    words.push_back(arguments.ready_fd);
    fcntl(std::atoi(arguments.ready_fd.c_str()), F_SETFD, 0);
  }
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  dprintf(2, "rayo-keeper: cannot run %s: %s\n", argv[0], std::strerror(errno));
  _exit(127);
}

// Parent of a process by /proc/PID/stat; -1 where it is gone.
pid_t parent_of(pid_t pid) {
  auto stat = rayo::base::read_file(rayo::base::cat("/proc/", pid, "/stat"));
  if (!stat.ok()) return -1;
  size_t after_name = stat->rfind(')');
  if (after_name == std::string::npos || after_name + 4 >= stat->size()) return -1;
  return static_cast<pid_t>(std::atoi(stat->c_str() + after_name + 4));
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  DIR* proc = opendir("/proc");
  if (!proc) return children;
  while (dirent* entry = readdir(proc)) {
    pid_t pid = static_cast<pid_t>(std::atoi(entry->d_name));
    if (pid > 0 && parent_of(pid) == parent) children.push_back(pid);
  }
  closedir(proc);
  return children;
}

// Every process below the keeper is a child of the keeper sooner or later, since it is their subreaper: kill
// children until none is left. Returns how many there were.
int end_tree() {
  int ended = 0;
  while (true) {
    for (pid_t child : children_of(getpid())) kill(child, SIGKILL);
    pid_t reaped = waitpid(-1, nullptr, WNOHANG);
    if (reaped > 0) {
      ++ended;
    } else if (reaped < 0 && errno == ECHILD) {
      return ended;
    } else if (reaped == 0) {
      timespec pause{0, 1'000'000};  // killed, not yet gone
      nanosleep(&pause, nullptr);
    }
  }
}

std::string describe(int status) {
  if (WIFSIGNALED(status)) return rayo::base::cat("ended by signal ", WTERMSIG(status));
  return rayo::base::cat("ended with exit code ", WEXITSTATUS(status));
}

// Waits for signals until the child has ended; other children (left by a part of the tree that died) are
// reaped on the way.
int serve(pid_t child, const sigset_t& signals) {
  while (true) {
    siginfo_t info{};
    if (sigwaitinfo(&signals, &info) < 0) continue;
    if (info.si_signo != SIGCHLD) {
      kill(child, info.si_signo == SIGHUP ? SIGTERM : info.si_signo);
      continue;
    }
    int status = 0;
    pid_t reaped = 0;
    while ((reaped = waitpid(-1, &status, WNOHANG)) > 0) {
      if (reaped == child) return status;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (!parse(argc, argv, arguments)) {
    std::fputs("usage: rayo-keeper [--pid-file F] [--ready-fd N] -- PROGRAM ARGS...\n", stderr);
    return 2;
  }
  rayo::base::init_log("keeper");
  ::signal(SIGXFSZ, SIG_IGN);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t signals, old_mask;
  sigemptyset(&signals);
  for (int signal : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, &old_mask);
  if (!arguments.pid_file.empty()) {
    if (auto written = rayo::base::write_pid_file(arguments.pid_file, getpid()); !written.ok()) {
      rayo::base::log().error("{}", rayo::base::message(written));
      return 1;
    }
  }
  pid_t keeper = getpid();
  pid_t child = fork();
  if (child < 0) {
    rayo::base::log().error("cannot fork: {}", std::strerror(errno));
    return 1;
  }
  if (child == 0) become(arguments, keeper, old_mask);
  if (!arguments.ready_fd.empty()) close(std::atoi(arguments.ready_fd.c_str()));

  int status = serve(child, signals);
  int rest = end_tree();
  // Control groups that it made for its workers and could not remove itself (runtime/raylet/worker_groups.h).
  for (const auto& parent : rayo::base::divisible_cgroups())
    rayo::base::remove_cgroups(parent, rayo::base::cat("rayo-", child, "-"));
  rayo::base::log().info("{} (pid {}) {}; {} processes of its tree were ended", arguments.program[0], child,
                         describe(status), rest);
  if (!arguments.pid_file.empty()) unlink(arguments.pid_file.c_str());
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
