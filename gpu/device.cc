#include "gpu/device.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "runtime/base/fd.h"
#include "runtime/base/text.h"

extern char** environ;

namespace rayo::gpu {
namespace {

using base::cat;

std::string probe_path() {
  const char* wanted = std::getenv("RAYO_GPU_PROBE");
  if (wanted && *wanted) return wanted;
  std::error_code error;
  auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / "rayo-gpu-probe").string();
}

DeviceList none(std::string reason) { return {{}, std::move(reason)}; }

struct Probe {
  pid_t pid = 0;
  base::Fd out;
};

base::StatusOr<Probe> start_probe(const std::string& path) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return base::failed_errno(errno, "cannot make a pipe");
  Probe probe;
  probe.out = base::Fd(ends[0]);
  base::Fd in(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, in.get(), 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t no_signals;
  sigemptyset(&no_signals);
  posix_spawnattr_setsigmask(&attributes, &no_signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  std::string name = path;
  char* argv[] = {name.data(), nullptr};
  int error = posix_spawn(&probe.pid, path.c_str(), &actions, &attributes, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return base::failed_errno(error, cat("cannot run ", path));
  return probe;
}

// All that the probe prints; false at the deadline.
bool read_all(int fd, base::TimePoint deadline, std::string& out) {
  for (;;) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - base::system_clock().now()).count();
    if (left <= 0) return false;
    pollfd waiting{fd, POLLIN, 0};
    int ready = poll(&waiting, 1, static_cast<int>(std::min<int64_t>(left, 60'000)));
    if (ready < 0 && errno != EINTR) return false;
    if (ready <= 0) continue;
    char piece[4096];
    ssize_t got = ::read(fd, piece, sizeof piece);
    if (got == 0) return true;
    if (got > 0) out.append(piece, static_cast<size_t>(got));
  }
}

// Reaps a probe that was killed. One that hangs inside the driver cannot be killed before the driver lets go
// of it: then it stays behind (as the caller's child) rather than make the caller wait.
int reap(pid_t pid) {
  int status = 0;
  for (int attempt = 0; attempt < 100; ++attempt) {
    if (waitpid(pid, &status, WNOHANG) != 0) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return status;
}

}  // namespace

DeviceList list_devices(base::TimePoint deadline) {
  std::string path = probe_path();
  auto probe = start_probe(path);
  if (!probe.ok()) return none(std::string(base::message(probe.status())));
  std::string output;
  bool ended = read_all(probe->out.get(), deadline, output);
  if (!ended) kill(probe->pid, SIGKILL);
  int status = reap(probe->pid);
  if (!ended)
    return none("the NVIDIA driver did not answer in time: the question was given up (nvidia-smi would hang too)");
  if (WIFSIGNALED(status)) {
    return none(cat("rayo-gpu-probe was ended inside the NVIDIA driver by signal ", WTERMSIG(status), " (",
                    strsignal(WTERMSIG(status)), ")"));
  }
  auto list = parse_devices(output);
  return list.ok() ? *list : none(std::string(base::message(list.status())));
}

}  // namespace rayo::gpu
