#include "runtime/raylet/spawn.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/private_file.h"
#include "runtime/base/text.h"

namespace rayo::raylet {
namespace {

using base::cat;

// What the child needs, made before the fork: it shares our memory until exec and may only make system calls.
struct Prepared {
  std::vector<char*> argv;
  std::vector<char*> envp;
  const char* program = nullptr;
  const char* directory = nullptr;
  int program_fd = -1;
  int null_fd = -1;
  int out_fd = -1;
  int error_fd = -1;
  const rlimit* open_files = nullptr;
  pid_t parent = 0;
  int failure = 0;  // written by the child: errno of what failed
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const auto& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

void run_child(Prepared& p) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != p.parent) _exit(1);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int signal : {SIGPIPE, SIGXFSZ, SIGHUP, SIGINT, SIGTERM, SIGCHLD}) ::signal(signal, SIG_DFL);
  if (p.directory && *p.directory && chdir(p.directory) != 0) {
    // The driver's directory may not exist on this node: the worker starts where the raylet is.
  }
  if (dup2(p.null_fd, 0) < 0 || dup2(p.out_fd, 1) < 0 || dup2(p.error_fd, 2) < 0) {
    p.failure = errno;
    _exit(127);
  }
  if (p.open_files) setrlimit(RLIMIT_NOFILE, p.open_files);
  if (p.program)
    execve(p.program, p.argv.data(), p.envp.data());
  else
    fexecve(p.program_fd, p.argv.data(), p.envp.data());
  p.failure = errno;
  _exit(127);
}

}  // namespace

base::StatusOr<pid_t> spawn_child(const SpawnRequest& request) {
  int null_fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null_fd < 0) return base::failed_errno(errno, "cannot open /dev/null");
  Prepared prepared;
  prepared.argv = pointers(request.arguments);
  prepared.envp = pointers(request.environment);
  prepared.directory = request.working_directory.c_str();
  prepared.program_fd = request.program_fd;
  if (!request.program.empty()) prepared.program = request.program.c_str();
  prepared.null_fd = null_fd;
  prepared.out_fd = request.out_fd;
  prepared.error_fd = request.error_fd;
  prepared.open_files = request.open_files ? &*request.open_files : nullptr;
  prepared.parent = getpid();
  // No handler of ours may run in the child while it shares our memory.
  sigset_t all, old_mask;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old_mask);
  pid_t pid = vfork();
  if (pid == 0) run_child(prepared);
  int error = pid < 0 ? errno : prepared.failure;
  pthread_sigmask(SIG_SETMASK, &old_mask, nullptr);
  ::close(null_fd);
  if (pid < 0)
    return base::failed_errno(error, "cannot start a worker", "is the number of processes limited (ulimit -u)?");
  if (error == 0) return pid;
  (void)waitpid(pid, nullptr, 0);
  return base::failed_errno(error, cat("cannot run ", request.arguments.empty() ? "the program" : request.arguments[0]),
                            error == EACCES ? "is the file system of the runtime directory mounted noexec?" : "");
}

std::vector<pid_t> own_children() {
  std::vector<pid_t> children;
  auto list = base::read_file(cat("/proc/self/task/", ::getpid(), "/children"));
  for (const auto& word : base::split(list.value_or(""), ' '))
    if (pid_t pid = static_cast<pid_t>(std::atoi(word.c_str())); pid > 0) children.push_back(pid);
  return children;
}

}  // namespace rayo::raylet
