#include "runtime/base/loop/fd_watch.h"

#include <fcntl.h>

#include "runtime/base/check.h"
#include "runtime/base/loop/socket.h"

namespace rayo::base {

struct FdWatch::State {
  State(Loop& loop) : descriptor(loop.io()) {}
  Descriptor descriptor;
  // One wait of each kind is with Asio at a time; fibers that come meanwhile share it.
  struct Side {
    bool armed = false;
    WaitList fibers;
  };
  Side read;
  Side write;
  bool closed = false;
};

FdWatch::FdWatch(Loop& loop, Fd fd) : state_(std::make_shared<State>(loop)) {
  int flags = ::fcntl(fd.get(), F_GETFL);
  ::fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK);
  boost::system::error_code error;
  state_->descriptor.assign(fd.get(), error);
  RAYO_CHECK(!error, "a descriptor that can be polled is given");
  fd.release();
}

FdWatch::~FdWatch() { close(); }

Status FdWatch::wait(Descriptor::wait_type what, TimePoint deadline) {
  auto state = state_;
  if (state->closed) return failed(absl::StatusCode::kUnavailable, "connection closed");
  State::Side& side = what == Descriptor::wait_read ? state->read : state->write;
  if (!side.armed) {
    side.armed = true;
    state->descriptor.async_wait(what, [state, &side](const boost::system::error_code&) {
      side.armed = false;
      side.fibers.notify_all();
    });
  }
  if (side.fibers.wait(deadline)) {
    return state->closed ? failed(absl::StatusCode::kUnavailable, "connection closed") : absl::OkStatus();
  }
  if (fiber_cancelled()) return absl::CancelledError("cancelled");
  return absl::DeadlineExceededError("nothing came in time");
}

void FdWatch::when_writable(std::function<void()> callback) {
  state_->descriptor.async_wait(Descriptor::wait_write,
                                [state = state_, callback = std::move(callback)](const boost::system::error_code&) {
                                  if (!state->closed) callback();
                                });
}

void FdWatch::interrupt() {
  state_->read.fibers.notify_all();
  state_->write.fibers.notify_all();
}

void FdWatch::close() {
  if (state_->closed) return;
  state_->closed = true;
  boost::system::error_code ignored;
  state_->descriptor.close(ignored);
  interrupt();
}

Fd FdWatch::release() {
  state_->closed = true;
  interrupt();
  return Fd(state_->descriptor.release());
}

int FdWatch::fd() const { return state_->closed ? -1 : state_->descriptor.native_handle(); }

namespace {

// A descriptor of somebody else's: watched by a duplicate, so that closing ours leaves it alone.
Status wait_on_copy(Loop& loop, int fd, TimePoint deadline, bool readable) {
  Fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy) return failed_errno(errno, "cannot wait on a descriptor");
  FdWatch watch(loop, std::move(copy));
  return readable ? watch.wait_readable(deadline) : watch.wait_writable(deadline);
}

}  // namespace

Status wait_readable(Loop& loop, int fd, TimePoint deadline) { return wait_on_copy(loop, fd, deadline, true); }
Status wait_writable(Loop& loop, int fd, TimePoint deadline) { return wait_on_copy(loop, fd, deadline, false); }

}  // namespace rayo::base
