// One event loop of a daemon: an io_context and the fibers that wait on it, all on the thread that called
// run().
//
//   base::Loop loop;
//   loop.spawn("main", [&] {       // a fiber: reads top to bottom, waits as if it were a thread
//     base::sleep_for(100ms);
//     loop.stop();
//   });
//   loop.run();                    // returns when stopped and every fiber has ended
//
// Threads: spawn, every, after and all waits (event.h, socket.h) belong to the loop thread; post, defer and
// stop may be called from any thread. One Loop a thread; several loops in a process are fine.
//
// Cancelling: a fiber is never torn down from outside. Where it is cancelled (TaskGroup::cancel, Loop::stop),
// each of its waits from then on returns at once as if its deadline had passed, and fiber_cancelled() is
// true. So a loop of a fiber reads `while (auto item = queue.pop(kForever))` or asks fiber_cancelled(); a
// fiber that ignores it ends the process (RAYO_CHECK) 10 s after stop(). Clean-up that must wait in spite of
// it holds a Shield.
//
// A handler that runs longer than 10 ms without a wait blocks everything else: counted by slow_turns(),
// logged with its name.
#pragma once

#include <absl/functional/any_invocable.h>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>

#include "runtime/base/clock.h"

namespace boost::asio {
class io_context;
}

namespace rayo::base {

using Task = absl::AnyInvocable<void()>;

class TaskGroup;
struct FiberRecord;

// A timer that Loop::after or Loop::every made; it is cancelled when the handle goes (release() lets it run
// on).
class Timer {
 public:
  Timer() = default;
  Timer(Timer&&) noexcept = default;
  Timer& operator=(Timer&& other) noexcept;
  ~Timer() { cancel(); }
  void cancel();
  void release() { state_.reset(); }
  // It will run its task (again): false from the moment that a timer of after() fires.
  bool pending() const;

 private:
  friend class Loop;
  struct State;
  explicit Timer(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

class Loop {
 public:
  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Makes this thread the loop's until stop() was called and every fiber has ended.
  void run();
  // Any thread: cancels every fiber; run() returns when they have ended. Idempotent.
  void stop();
  bool stopping() const;

  // Starts a fiber. From the loop thread, or before run() from the thread that will call it. `name` is
  // copied.
  void spawn(std::string_view name, Task task);
  // Any thread: runs `task` in a fiber of the loop. What is posted after run() has returned is destroyed
  // unrun.
  void post(Task task);
  // Any thread: runs `task` on the loop thread outside of any fiber: it must be short and must not wait.
  void defer(Task task);

  // Runs `task` in a fiber once after `span`, or each `span` (from the end of one run to the start of the
  // next).
  [[nodiscard]] Timer after(Duration span, Task task);
  [[nodiscard]] Timer every(Duration span, Task task);

  bool on_loop_thread() const;
  const Clock& clock() const { return system_clock(); }
  TimePoint now() const { return clock().now(); }
  TimePoint deadline(Duration span) const { return deadline_after(now(), span); }
  // Turns (from one wait to the next) that took over 10 ms. Any thread.
  uint64_t slow_turns() const;
  int fibers() const;  // alive, of this loop
  boost::asio::io_context& io();

 private:
  friend class TaskGroup;
  friend class WaitList;
  friend class Timer;
  struct State;
  std::unique_ptr<State> state_;
};

// The loop that runs on this thread; nullptr on any other thread.
Loop* current_loop();

// Inside a fiber: waits; false where the fiber was cancelled meanwhile.
bool sleep_for(Duration span);
bool sleep_until(TimePoint deadline);
// Lets every other ready fiber run first.
void yield_fiber();
bool fiber_cancelled();
// While one lives, this fiber's waits do not see that it was cancelled.
class Shield {
 public:
  Shield();
  ~Shield();
  Shield(const Shield&) = delete;
  Shield& operator=(const Shield&) = delete;
};

// Runs `task` as the one fiber of a fresh loop on this thread, until it ends: for commands and tests.
void run_in_loop(Task task);

}  // namespace rayo::base
