// The threads that wait behind the one that drives: each sleeps on a word of its own, and is woken when its
// condition holds or when the driver's role is free. Under the baton, but for sleep().
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/base/clock.h"

namespace rayo::worker {

struct Waiter {
  bool (*ready)(void*) = nullptr;
  void* context = nullptr;
  Waiter* previous = nullptr;
  Waiter* next = nullptr;
  std::atomic<uint32_t> word{0};  // 1: look again
};

class Waiters {
 public:
  bool empty() const { return first_ == nullptr; }
  void add(Waiter& waiter);
  void remove(Waiter& waiter);
  void wake_ready();
  void wake_first();
  void wake_all();

  // Without the baton: until woken, interrupted, or `span` has passed (negative: no end).
  static void sleep(Waiter& waiter, base::Duration span);

 private:
  static void wake(Waiter& waiter);
  Waiter* first_ = nullptr;
  Waiter* last_ = nullptr;
};

}  // namespace rayo::worker
