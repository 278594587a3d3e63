// The calls of an actor with max_concurrency > 1: each on a stack of its own, all on the main thread, one at a time. One
// that waits (get, next, wait, blocking) gives the thread to the main loop, which goes on with others.
//
//   fibers.start([&] { run(call); });              // runs now, up to its end or its first wait
//   fibers.wait(ready, deadline);                  // in a fiber: others run meanwhile
//   engine.wait_until([&] { return fibers.any_due(now) || ...; }, fibers.next_deadline());
//   fibers.resume_due();
//
// It is Boost.Context without Boost.Fiber: the engine's main loop already decides who runs next. The state of
// exceptions goes with each stack. Main thread only, under the baton (which the running fiber gives up in user code).
#pragma once

#include <functional>
#include <list>
#include <memory>

#include "runtime/base/clock.h"

namespace rayo::worker {

class CallFibers {
 public:
  // Stacks of that many bytes.
  CallFibers(size_t stack_bytes, const base::Clock& clock);
  ~CallFibers();

  // Runs `body` on a fresh stack until it ends or waits. Not from within a fiber. `body` must not throw.
  void start(std::function<void()> body);
  // In a fiber: true once `ready` holds; false at the deadline. `ready` is called under the baton, also by other threads.
  bool wait(const std::function<bool()>& ready, base::TimePoint deadline);
  bool inside() const { return running_ != nullptr; }
  // Which fiber runs; null: none.
  const void* current() const { return running_; }

  // Fibers that have not ended.
  size_t count() const { return fibers_.size(); }
  bool any_due(base::TimePoint now) const;
  // Continues each whose wait is over, once (false: none); the first of them alone.
  bool resume_due();
  void resume_one();
  base::TimePoint next_deadline() const;

 private:
  struct Fiber;
  void resume(Fiber& fiber);

  const base::Clock& clock_;
  struct Stacks;
  std::unique_ptr<Stacks> stacks_;
  std::list<std::unique_ptr<Fiber>> fibers_;
  Fiber* running_ = nullptr;
};

}  // namespace rayo::worker
