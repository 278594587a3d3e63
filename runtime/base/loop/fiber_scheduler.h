// Inside of the loop: how fibers of one thread take turns, what is known of each, and where their stacks come
// from. Nobody outside of runtime/base/loop includes this.
//
// Invariants:
//  1. The fiber that called Loop::run (the "main" one) is ready whenever another runs; so the ready queue is
//     never empty.
//  2. At each switch the C++ runtime's exception state (__cxa_get_globals) is saved with the fiber that
//  leaves
//     and restored for the one that comes. Without it a fiber that suspends inside a catch block rethrows
//     another fiber's exception.
//  3. Boost's dispatcher context only frees ended fibers here (sleeps and cross-thread wake-ups are the
//  loop's
//     own), so it gets a turn when a fiber has ended, and every 64 switches for fibers that others made.
#pragma once

#include <boost/fiber/all.hpp>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/exception_state.h"
#include "runtime/base/loop/event.h"
#include "runtime/base/loop/loop.h"
#include "runtime/base/stack_pool.h"

namespace rayo::base {

inline constexpr Duration kSlowTurn = std::chrono::milliseconds(10);  // a longer turn of the loop is a bug

struct FiberRecord final : boost::fibers::fiber_properties {
  explicit FiberRecord(boost::fibers::context* context) : fiber_properties(context) {}

  ExceptionState exceptions;  // while the fiber does not run
  std::string name;
  bool of_loop = false;  // started by Loop::spawn: it may wait
  bool cancelled = false;
  int shields = 0;
  int ignored_cancels = 0;  // waits that returned at once
  Waiter* waiting = nullptr;
  FiberRecord* next = nullptr;  // in the list of its loop
  FiberRecord* previous = nullptr;
  std::shared_ptr<TaskGroup::State> group;

  bool ends_waits() const { return cancelled && shields == 0; }
};

// Sets the flag and ends the wait that it is in, if any.
void cancel_fiber(FiberRecord& record);

// Of the running fiber; nullptr where no fiber of a loop runs.
FiberRecord* current_record();

constexpr size_t kLoopStackBytes = size_t{256} << 10;

class FiberScheduler final : public boost::fibers::algo::algorithm_with_properties<FiberRecord> {
 public:
  // This thread's; installed at the first call.
  static FiberScheduler& of_this_thread();
  FiberScheduler() = default;

  void awakened(boost::fibers::context* context, FiberRecord& record) noexcept override;
  boost::fibers::context* pick_next() noexcept override;
  bool has_ready_fibers() const noexcept override { return !ready_.empty() || dispatcher_ != nullptr; }
  void suspend_until(const std::chrono::steady_clock::time_point&) noexcept override;
  void notify() noexcept override {}

  // Fibers other than the one that asks.
  bool others_ready() const { return !ready_.empty(); }
  void fiber_ended() { dispatcher_due_ = true; }
  uint64_t slow_turns() const { return slow_turns_.load(std::memory_order_relaxed); }
  void count_slow_turn() { slow_turns_.fetch_add(1, std::memory_order_relaxed); }
  StackPool& stacks() { return stacks_; }
  // The main fiber was asleep in the kernel: no turn of its own.
  void restart_turn() { turn_began_ = system_clock().now(); }

 private:
  void switch_exceptions_to(boost::fibers::context* next) noexcept;
  void end_turn(boost::fibers::context* leaving) noexcept;

  StackPool stacks_{kLoopStackBytes};
  boost::fibers::scheduler::ready_queue_type ready_;
  boost::fibers::context* dispatcher_ = nullptr;
  boost::fibers::context* running_ = nullptr;
  bool dispatcher_due_ = false;
  uint32_t switches_ = 0;
  TimePoint turn_began_{};
  std::atomic<uint64_t> slow_turns_{0};
};

}  // namespace rayo::base
