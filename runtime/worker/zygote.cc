#include "runtime/worker/zygote.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <linux/sched.h>
#include <optional>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/text.h"
#include "runtime/rpc/token.h"
#include "runtime/worker/failure.h"
#include "runtime/worker/process.h"

namespace rayo::worker {

namespace {

// Like fork(), but the child's parent is ours, and nothing is signalled at its end. -1 and errno as usual.
pid_t fork_for_parent() {
  int* tid_address = nullptr;
  void* robust_list = nullptr;
  size_t robust_bytes = 0;
  if (::prctl(PR_GET_TID_ADDRESS, &tid_address) != 0) return -1;
  ::syscall(SYS_get_robust_list, 0, &robust_list, &robust_bytes);
  int pidfd = -1;
  clone_args arguments{};
  arguments.flags = CLONE_PARENT | CLONE_PIDFD | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
  arguments.pidfd = reinterpret_cast<uint64_t>(&pidfd);
  arguments.child_tid = reinterpret_cast<uint64_t>(tid_address);
  arguments.exit_signal = 0;
  const long pid = ::syscall(SYS_clone3, &arguments, sizeof arguments);
  if (pid == 0 && robust_list) ::syscall(SYS_set_robust_list, robust_list, robust_bytes);
  if (pid > 0 && pidfd >= 0) ::close(pidfd);
  return static_cast<pid_t>(pid);
}

// In the child: its own output, group and environment. The zygote's socket is closed by its owner.
void become_worker(const proto::Fork& fork, const std::vector<base::Fd>& fds) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() == 1) ::_exit(1);  // the raylet went meanwhile
  ::setpgid(0, 0);
  ::dup2(fds[1].get(), STDOUT_FILENO);
  ::dup2(fds[2].get(), STDERR_FILENO);
  for (const std::string& variable : fork.environment()) {
    const size_t at = variable.find('=');
    if (at != std::string::npos) ::setenv(variable.substr(0, at).c_str(), variable.c_str() + at + 1, 1);
  }
}

void tell(RayletSocket& raylet, const proto::Fork& fork, pid_t pid, int error) {
  proto::ToRaylet message;
  *message.mutable_fork_done()->mutable_process() = fork.process();
  message.mutable_fork_done()->set_pid(pid > 0 ? pid : 0);
  if (pid <= 0) message.mutable_fork_done()->set_error(std::strerror(error));
  if (!raylet.send(0, message).ok()) ::_exit(0);
}

}  // namespace

Forked run_zygote(RayletSocket raylet, const ForkHooks& hooks) {
  // The first use of OpenSSL reads its configuration and fills its tables, which takes longer than the fork: once here
  // and not in each worker.
  (void)rpc::LinkKeys::of_data({});
  while (true) {
    auto frame = raylet.receive(base::kForever);
    if (!frame.ok() || frame->message.has_exit()) ::_exit(0);
    if (!frame->message.has_fork()) continue;
    const proto::Fork& fork = frame->message.fork();
    if (frame->fds.size() != 3) {
      tell(raylet, fork, 0, EINVAL);
      continue;
    }
    std::fflush(nullptr);
    if (hooks.before) hooks.before();
    const pid_t pid = fork_for_parent();
    const int error = errno;
    if (pid == 0) {
      become_worker(fork, frame->fds);
      if (hooks.in_child) hooks.in_child();
      return {id_of<ProcessId>(fork.process()), RayletSocket(std::move(frame->fds[0]))};
    }
    if (hooks.in_parent) hooks.in_parent();
    tell(raylet, fork, pid, error);
  }
}

}  // namespace rayo::worker
