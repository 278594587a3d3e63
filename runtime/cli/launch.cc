#include "runtime/cli/launch.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <vector>

#include "runtime/base/session.h"
#include "runtime/base/text.h"

extern char** environ;

namespace rayo::cli {
namespace {

using base::cat;

constexpr int kReadyFd = 3;  // in the daemon

// posix_spawn's attributes and file actions, released at the end.
class SpawnPlan {
 public:
  SpawnPlan() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  void open(int fd, const char* path, int flags) { posix_spawn_file_actions_addopen(&actions_, fd, path, flags, 0600); }
  void move(int from, int to) { posix_spawn_file_actions_adddup2(&actions_, from, to); }
  base::StatusOr<pid_t> run(std::vector<std::string> words) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::vector<char*> variables;
    for (char** variable = environ; *variable; ++variable)
      if (!base::holds_token(*variable)) variables.push_back(*variable);
    variables.push_back(nullptr);
    pid_t pid = 0;
    int error = posix_spawn(&pid, argv[0], &actions_, &attributes_, argv.data(), variables.data());
    if (error != 0)
      return base::failed_errno(error, cat("cannot run ", words[0]),
                                "install Rayo again: its programs belong into one directory");
    return pid;
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

base::Status check_executable(const base::Path& program) {
  if (access(program.c_str(), X_OK) == 0) return {};
  return base::failed_errno(errno, cat("cannot run ", program.string()),
                            "install Rayo again: its programs belong into one directory");
}

StartError ended_silently(StartedDaemon& daemon) {
  std::string line = last_line(daemon.place.log);
  return {base::failed(absl::StatusCode::kInternal,
                       cat("cannot start ", daemon.place.program, ": it ended",
                           line.empty() ? std::string(" without a word") : cat(": ", line)),
                       cat("RAYO_LOG=debug rayo start ... tells more in ", daemon.place.log.filename().string())),
          kFailed};
}

ExitCode as_exit_code(int code) { return code >= kFailed && code <= kTimedOut ? static_cast<ExitCode>(code) : kFailed; }

ReadyOutcome understood(StartedDaemon& daemon, const std::string& line) {
  if (line.empty()) return {{}, ended_silently(daemon)};
  auto ready = base::read_ready(line);
  if (!ready.ok()) return {{}, {ready.status(), kFailed}};
  if (ready->ok) return {std::move(*ready), {}};
  return {{},
          {base::failed(absl::StatusCode::kInternal, ready->error, ready->next_step), as_exit_code(ready->exit_code)}};
}

}  // namespace

base::Path program_dir() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
}

std::string last_line(const base::Path& log) {
  constexpr std::streamoff kLooked = 64 << 10;  // bytes of its end: a daemon's log may have megabytes
  std::ifstream stream(log, std::ios::binary | std::ios::ate);
  stream.seekg(std::max<std::streamoff>(0, static_cast<std::streamoff>(stream.tellg()) - kLooked));
  const std::string end_of_log{std::istreambuf_iterator<char>(stream), {}};
  std::string_view text = base::trim(end_of_log);
  while (true) {
    const size_t end = text.rfind('\n');
    const std::string_view line = end == std::string_view::npos ? text : text.substr(end + 1);
    // The keeper tells of the daemon's end in the same file, behind the daemon's own last word or before it.
    if (line.find(" I keeper: ") == std::string_view::npos) return std::string(line);
    if (end == std::string_view::npos) return {};
    text = base::trim(text.substr(0, end));
  }
}

base::StatusOr<StartedDaemon> launch(const DaemonPlace& place) {
  base::Path keeper = program_dir() / "rayo-keeper", program = program_dir() / place.program;
  RAYO_RETURN_IF_ERROR(check_executable(keeper));
  RAYO_RETURN_IF_ERROR(check_executable(program));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return base::failed_errno(errno, "cannot make a pipe", "close other programs of yours");
  StartedDaemon daemon{place, 0, base::Fd(ends[0])};
  base::Fd write_end(ends[1]);
  SpawnPlan plan;
  plan.open(STDIN_FILENO, "/dev/null", O_RDONLY);
  plan.open(STDOUT_FILENO, place.log.c_str(), O_WRONLY | O_CREAT | O_APPEND);
  plan.move(STDOUT_FILENO, STDERR_FILENO);
  plan.move(write_end.get(), kReadyFd);
  RAYO_ASSIGN_OR_RETURN(daemon.keeper,
                        plan.run({keeper.string(), "--pid-file", place.keeper_pid.string(), "--ready-fd", cat(kReadyFd),
                                  "--", program.string(), "--settings", (place.dir / "settings.json").string()}));
  return daemon;
}

ReadyOutcome await_ready(StartedDaemon& daemon, base::TimePoint deadline, Interrupts& interrupts, Terminal& terminal) {
  std::string line;
  for (;;) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - base::system_clock().now()).count();
    if (left <= 0) {
      return {{},
              {base::failed(absl::StatusCode::kDeadlineExceeded,
                            cat("cannot start ", daemon.place.program, ": it does not answer"),
                            "rayo doctor checks this machine"),
               kTimedOut}};
    }
    pollfd waiting[2] = {{daemon.ready.get(), POLLIN, 0}, {interrupts.fd(), POLLIN, 0}};
    if (poll(waiting, 2, static_cast<int>(std::min<int64_t>(left, 5'000))) <= 0) {
      terminal.note(cat("waiting for ", daemon.place.program, " (its log: ", daemon.place.log.string(), ")"));
      continue;
    }
    if (waiting[1].revents && interrupts.wait({})) {
      return {
          {},
          {base::failed(absl::StatusCode::kCancelled, "cannot start: interrupted", "rayo start again when it suits"),
           kFailed}};
    }
    if (!waiting[0].revents) continue;
    char piece[4096];
    ssize_t got = read(daemon.ready.get(), piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got > 0) line.append(piece, static_cast<size_t>(got));
    if (got <= 0 || line.back() == '\n') return understood(daemon, line);
  }
}

}  // namespace rayo::cli
