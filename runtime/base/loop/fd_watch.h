// Inside of the loop's sockets: waiting until a descriptor can be read or written. Loop thread only.
#pragma once

#include <boost/asio.hpp>
#include <functional>
#include <memory>

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/loop/event.h"
#include "runtime/base/loop/loop.h"
#include "runtime/base/status.h"

namespace rayo::base {

class FdWatch {
 public:
  // Owns the descriptor and makes it non-blocking.
  FdWatch(Loop& loop, Fd fd);
  ~FdWatch();
  FdWatch(const FdWatch&) = delete;
  FdWatch& operator=(const FdWatch&) = delete;

  // In a fiber: kDeadlineExceeded, kCancelled (the fiber), kUnavailable (interrupted or closed).
  Status wait_readable(TimePoint deadline) { return wait(Descriptor::wait_read, deadline); }
  Status wait_writable(TimePoint deadline) { return wait(Descriptor::wait_write, deadline); }
  // Calls back once, outside of any fiber; never after close().
  void when_writable(std::function<void()> callback);
  // Ends every wait.
  void interrupt();
  void close();
  Fd release();
  int fd() const;

 private:
  using Descriptor = boost::asio::posix::stream_descriptor;
  struct State;
  Status wait(Descriptor::wait_type what, TimePoint deadline);
  std::shared_ptr<State> state_;
};

}  // namespace rayo::base
