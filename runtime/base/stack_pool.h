// Stacks for fibers: each over a guard, so that an overflow is a SIGSEGV at once and not somebody else's memory; kept for
// reuse, since a fresh one costs as much as a hundred switches.
//
// One owner, one thread.
#pragma once

#include <cstddef>
#include <vector>

namespace rayo::base {

// Memory from top - size to top.
struct Stack {
  void* top = nullptr;
  size_t size = 0;
};

class StackPool {
 public:
  // Below each stack, not to be touched: a frame that is larger could step over it.
  static constexpr size_t kGuardBytes = 64 << 10;

  // Of that many bytes, rounded up to pages.
  explicit StackPool(size_t bytes);
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  // Throws std::bad_alloc.
  Stack take();
  void give_back(const Stack& stack);

 private:
  const size_t bytes_;
  std::vector<Stack> free_;
};

}  // namespace rayo::base
