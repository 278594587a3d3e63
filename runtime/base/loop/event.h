// What fibers of one loop wait on. All of it belongs to the loop thread: to set something from another
// thread, `loop.defer([e] { e->set(); })`. Each wait takes a deadline and returns false / nullopt when it
// passes or when the waiting fiber is cancelled (loop.h). Owners keep an object alive until its waiters have
// left (destroying one with waiters is an error).
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/loop/loop.h"

namespace rayo::base {

struct Waiter;  // a fiber that waits

// Fibers in the order in which they came.
class WaitList {
 public:
  WaitList() = default;
  WaitList(const WaitList&) = delete;
  WaitList& operator=(const WaitList&) = delete;
  ~WaitList();
  // Suspends until notified (true), the deadline passes or the fiber is cancelled (false).
  bool wait(TimePoint deadline);
  // Wakes the first waiter that is not awake already; false where there is none.
  bool notify_one();
  void notify_all();
  bool empty() const { return first_ == nullptr; }

 private:
  friend struct Waiter;
  Waiter* first_ = nullptr;
  Waiter* last_ = nullptr;
};

// Stays set until reset().
class Event {
 public:
  void set() {
    set_ = true;
    waiters_.notify_all();
  }
  void reset() { set_ = false; }
  bool is_set() const { return set_; }
  bool wait(TimePoint deadline = kForever) { return set_ || waiters_.wait(deadline) || set_; }

 private:
  bool set_ = false;
  WaitList waiters_;
};

// A value that comes once. The first set() counts; one fiber takes it.
template <class T>
class OneShot {
 public:
  bool set(T value) {
    if (event_.is_set()) return false;
    value_.emplace(std::move(value));
    event_.set();
    return true;
  }
  bool is_set() const { return event_.is_set(); }
  std::optional<T> wait(TimePoint deadline = kForever) {
    if (!event_.wait(deadline)) return std::nullopt;
    return std::exchange(value_, std::nullopt);
  }

 private:
  Event event_;
  std::optional<T> value_;
};

// First in, first out, without a limit of its own: who pushes looks at size().
template <class T>
class Queue {
 public:
  // False once closed; the item is dropped then.
  bool push(T item) {
    if (closed_) return false;
    items_.push_back(std::move(item));
    waiters_.notify_one();
    return true;
  }
  // nullopt: the deadline passed, the fiber is cancelled, or it is closed and empty (closed() tells).
  std::optional<T> pop(TimePoint deadline = kForever) {
    while (items_.empty()) {
      if (closed_ || !waiters_.wait(deadline)) {
        if (items_.empty()) return std::nullopt;
        break;
      }
    }
    return try_pop();
  }
  std::optional<T> try_pop() {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    return item;
  }
  // What is queued can still be popped.
  void close() {
    closed_ = true;
    waiters_.notify_all();
  }
  bool closed() const { return closed_; }
  size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }

 private:
  std::deque<T> items_;
  bool closed_ = false;
  WaitList waiters_;
};

class Semaphore {
 public:
  explicit Semaphore(int64_t count) : count_(count) {}
  bool acquire(TimePoint deadline = kForever) {
    while (count_ <= 0)
      if (!waiters_.wait(deadline) && count_ <= 0) return false;
    --count_;
    return true;
  }
  void release(int64_t count = 1) {
    count_ += count;
    for (int64_t i = 0; i < count; ++i) waiters_.notify_one();
  }

 private:
  int64_t count_;
  WaitList waiters_;
};

// For std::lock_guard: several waits of one fiber that no other fiber may come between. Waits in spite of a
// cancel.
class Mutex {
 public:
  void lock() {
    Shield shield;
    turn_.acquire();
  }
  void unlock() { turn_.release(); }

 private:
  Semaphore turn_{1};
};

// Fibers that end with their owner: the destructor cancels and joins them (so it runs in a fiber, outside of
// them).
//
//   TaskGroup tasks;
//   tasks.spawn("reports", [&] { while (sleep_for(1s)) report(); });
class TaskGroup {
 public:
  TaskGroup();
  ~TaskGroup();
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  // On a cancelled group the fiber starts cancelled.
  void spawn(std::string_view name, Task task);
  // Cancels what runs and what will be spawned.
  void cancel();
  // Waits until no fiber of the group is left, new ones included. False: the deadline passed.
  bool join(TimePoint deadline = kForever);
  int size() const;
  bool cancelled() const;

 private:
  friend struct FiberRecord;
  friend class Loop;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace rayo::base
