#include "runtime/base/loop/process.h"

#include <boost/asio.hpp>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unordered_map>

#include "runtime/base/text.h"

namespace rayo::base {
namespace {

ChildEnd describe_end(pid_t pid, int status, const rusage& usage) {
  ChildEnd end;
  end.pid = pid;
  end.exited = WIFEXITED(status);
  if (end.exited) end.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) {
    end.signal = WTERMSIG(status);
    end.core_dumped = WCOREDUMP(status);
  }
  end.rss_peak_bytes = static_cast<int64_t>(usage.ru_maxrss) * 1024;  // the kernel tells KiB
  return end;
}

}  // namespace

std::string ChildEnd::text() const {
  if (exited) return cat("exit code ", exit_code);
  const char* name = sigdescr_np(signal);
  return cat("signal ", signal, " (", name != nullptr ? name : "unknown", ")", core_dumped ? ", core dumped" : "");
}

struct ChildReaper::State : std::enable_shared_from_this<State> {
  struct Child {
    explicit Child(boost::asio::io_context& io) : pidfd(io) {}
    boost::asio::posix::stream_descriptor pidfd;
    std::function<void(const ChildEnd&)> handler;
  };
  explicit State(Loop& owner) : loop(owner) {}

  void wait(pid_t pid) {
    auto& child = *children.at(pid);
    child.pidfd.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                           [state = shared_from_this(), pid](const boost::system::error_code& error) {
                             if (!error) state->reap(pid);
                           });
  }

  void reap(pid_t pid) {
    auto found = children.find(pid);
    if (found == children.end()) return;
    int status = 0;
    rusage usage{};
    // __WALL: a child made by clone3 with another exit signal than SIGCHLD is ours too.
    pid_t reaped = ::wait4(pid, &status, WNOHANG | __WALL, &usage);
    if (reaped == 0) return wait(pid);
    auto handler = std::move(found->second->handler);
    children.erase(found);
    // Somebody else has waited for it: its end is known, how it ended is not.
    ChildEnd end =
        reaped == pid ? describe_end(pid, status, usage) : ChildEnd{.pid = pid, .exited = true, .exit_code = -1};
    loop.spawn("child ended", [handler = std::move(handler), end] { handler(end); });
  }

  Loop& loop;
  std::unordered_map<pid_t, std::unique_ptr<Child>> children;
};

ChildReaper::ChildReaper(Loop& loop) : state_(std::make_shared<State>(loop)) {}
ChildReaper::~ChildReaper() { state_->children.clear(); }

Status ChildReaper::on_child_exit(pid_t pid, std::function<void(const ChildEnd&)> handler) {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0)
    return failed(absl::StatusCode::kNotFound, cat("process ", pid, " is no child of this one"));
  int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));  // close-on-exec by itself
  if (pidfd < 0) return failed_errno(errno, cat("cannot watch process ", pid));
  auto child = std::make_unique<State::Child>(state_->loop.io());
  boost::system::error_code error;
  child->pidfd.assign(pidfd, error);
  if (error) {
    ::close(pidfd);
    return failed_errno(error.value(), cat("cannot watch process ", pid));
  }
  child->handler = std::move(handler);
  state_->children[pid] = std::move(child);
  state_->wait(pid);
  return absl::OkStatus();
}

int ChildReaper::watched() const { return static_cast<int>(state_->children.size()); }

}  // namespace rayo::base
