// What a child that the user forks from a process of ours is not to hold.
#pragma once

#include <atomic>

namespace rayo::worker {

// A descriptor that a child of fork() is not to hold. While a child holds the socket to the raylet, nobody sees that this
// process has ended. Goes before the descriptor is closed.
class ClosedInChild {
 public:
  explicit ClosedInChild(int fd);
  ~ClosedInChild();
  ClosedInChild(const ClosedInChild&) = delete;
  ClosedInChild& operator=(const ClosedInChild&) = delete;

 private:
  std::atomic<int>* place_ = nullptr;  // null where none was free: then a child holds it
};

}  // namespace rayo::worker
