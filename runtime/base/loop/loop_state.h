// Inside of the loop: its state, shared by loop.cc and event.cc.
#pragma once

#include <atomic>
#include <boost/asio.hpp>
#include <map>
#include <thread>
#include <unordered_set>
#include <vector>

#include "runtime/base/loop/fiber_scheduler.h"

namespace rayo::base {

// Something that is due at a time; `fire` runs on the main fiber and must not wait.
struct Due {
  virtual ~Due() = default;
  virtual void fire() = 0;
  std::optional<std::multimap<TimePoint, Due*>::iterator> entry;  // while it is in the list of due times
};

struct Loop::State {
  explicit State(Loop& loop) : owner(loop), alarm(io) {}
  ~State();

  void start_fiber(std::string_view name, Task task, std::shared_ptr<TaskGroup::State> group);
  void run_fiber(FiberRecord& record, Task task);
  template <class F>
  void hand_over(F handler) {
    handing_over.fetch_add(1);
    boost::asio::post(io, std::move(handler));
    handing_over.fetch_sub(1);
  }
  void link(FiberRecord& record);
  void unlink(FiberRecord& record);
  void begin_stop();
  void turn();
  void check_stop_limit() const;

  void add_due(TimePoint at, Due& due);
  void remove_due(Due& due);
  void arm_alarm(TimePoint at);
  void fire_due();

  Loop& owner;
  boost::asio::io_context io;  // no concurrency hint: with 1, posts starve under a fiber scheduler
  boost::asio::steady_timer alarm;
  TimePoint alarm_at = kForever;
  std::multimap<TimePoint, Due*> due_times;
  std::atomic<bool> stop_asked{false};
  // Threads inside of hand_over: what they hand over may be the last thing that the loop waited for, so it
  // ends after them.
  std::atomic<int> handing_over{0};
  bool stopping = false;
  TimePoint stop_limit = kForever;
  std::thread::id thread;
  FiberScheduler* scheduler = nullptr;
  FiberRecord* fibers = nullptr;
  int fiber_count = 0;
  std::vector<std::pair<std::string, Task>> before_run;
  std::unordered_set<Timer::State*> timers;
};

struct Timer::State final : Due, std::enable_shared_from_this<Timer::State> {
  void fire() override;
  void arm(Duration in);
  void end();

  Loop::State* loop = nullptr;  // nullptr: ended or cancelled
  Task task;
  Duration period{};            // zero: once
  std::shared_ptr<State> self;  // while armed or running
};

struct TaskGroup::State {
  std::unordered_set<FiberRecord*> members;
  bool cancelled = false;
  WaitList emptied;
};

// A fiber in WaitList::wait, on its stack.
struct Waiter final : Due {
  // Its time may come when it was woken already and its fiber has not run yet.
  void fire() override {
    if (list != nullptr) wake(false);
  }
  void wake(bool was_notified);

  FiberRecord* record = nullptr;
  boost::fibers::context* context = nullptr;
  WaitList* list = nullptr;
  Waiter* next = nullptr;
  Waiter* previous = nullptr;
  bool notified = false;
};

}  // namespace rayo::base
