// If this fails, a daemon's handlers lose their exceptions, their timers, or their way to an end.
#include "runtime/base/loop/loop.h"

#include <gtest/gtest.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/loop/blocking.h"
#include "runtime/base/loop/event.h"

namespace rayo::base {
namespace {

using namespace std::chrono_literals;

TEST(Loop, RunsWhatWasSpawnedBeforeAndPostedFromElsewhere) {
  Loop loop;
  std::vector<int> order;
  loop.spawn("first", [&] { order.push_back(1); });
  std::thread other([&] {
    loop.post([&] {
      order.push_back(2);
      loop.stop();
    });
  });
  loop.run();
  other.join();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  EXPECT_EQ(loop.fibers(), 0);
}

TEST(Loop, SeveralLoopsOnOneThreadOneAfterTheOther) {
  int runs = 0;
  for (int i = 0; i < 3; ++i) run_in_loop([&] { ++runs; });
  EXPECT_EQ(runs, 3);
}

// Each fiber waits inside its catch block and then says `throw;`: it must get its own exception back.
TEST(Loop, RethrowAfterAWaitIsTheFibersOwnException) {
  std::vector<std::string> caught(8);
  run_in_loop([&] {
    TaskGroup fibers;
    for (int i = 0; i < 8; ++i) {
      fibers.spawn("thrower", [&caught, i] {
        try {
          try {
            throw std::runtime_error("mine " + std::to_string(i));
          } catch (const std::exception&) {
            sleep_for(std::chrono::milliseconds(1 + (i * 5) % 7));
            throw;
          }
        } catch (const std::exception& error) {
          caught[static_cast<size_t>(i)] = error.what();
        }
      });
    }
    fibers.join();
  });
  for (int i = 0; i < 8; ++i) EXPECT_EQ(caught[static_cast<size_t>(i)], "mine " + std::to_string(i));
}

// Three catch blocks deep, with a wait in each, in 40 fibers at a time.
TEST(Loop, NestedExceptionsSurviveWaits) {
  int right = 0;
  auto nested = [&](int i) {
    try {
      throw i;
    } catch (int) {
      yield_fiber();
      try {
        try {
          throw std::to_string(i);
        } catch (const std::string&) {
          sleep_for(1ms);
          EXPECT_EQ(std::uncaught_exceptions(), 0);
          throw;
        }
      } catch (const std::string& inner) {
        yield_fiber();
        if (inner != std::to_string(i)) return;
      }
      try {
        throw;
      } catch (int outer) {
        if (outer == i) ++right;
      }
    }
  };
  run_in_loop([&] {
    TaskGroup fibers;
    for (int i = 0; i < 40; ++i) fibers.spawn("nested", [&nested, i] { nested(i); });
    fibers.join();
  });
  EXPECT_EQ(right, 40);
}

TEST(Loop, SleepersWakeInTheOrderOfTheirDeadlines) {
  std::vector<int> order;
  run_in_loop([&] {
    TaskGroup fibers;
    for (int span : {30, 10, 20})
      fibers.spawn("sleeper", [&order, span] {
        sleep_for(std::chrono::milliseconds(span));
        order.push_back(span);
      });
    fibers.join();
  });
  EXPECT_EQ(order, (std::vector<int>{10, 20, 30}));
}

// As those do that arm one timer for the next of many deadlines.
TEST(Loop, ATimersTaskFindsItFiredAndSetsItAgain) {
  int fired = 0;
  Loop loop;
  loop.spawn("main", [&] {
    Event third;
    Timer timer;
    std::function<void()> arm = [&] {
      if (timer.pending()) return;
      timer = loop.after(1ms, [&] {
        if (++fired == 3) return third.set();
        arm();
      });
    };
    arm();
    EXPECT_TRUE(third.wait(loop.deadline(10s)));
    loop.stop();
  });
  loop.run();
  EXPECT_EQ(fired, 3);
}

TEST(Loop, TimersFireRepeatAndAreCancelledWithTheirHandle) {
  int once = 0;
  int never = 0;
  int often = 0;
  Loop loop;
  loop.spawn("main", [&] {
    Timer first = loop.after(1ms, [&] { ++once; });
    {
      Timer dropped = loop.after(1ms, [&] { ++never; });
    }
    Event third;
    Timer repeating = loop.every(1ms, [&] {
      sleep_for(1ms);  // a timer's task is a fiber
      if (++often == 3) third.set();
    });
    EXPECT_TRUE(third.wait(loop.deadline(10s)));
    EXPECT_FALSE(first.pending());
    EXPECT_TRUE(repeating.pending());
    repeating.cancel();
    int seen = often;
    sleep_for(20ms);
    EXPECT_EQ(often, seen);
    loop.after(1h, [&] { ++never; }).release();  // does not hold the loop up
    loop.stop();
  });
  loop.run();
  EXPECT_EQ(once, 1);
  EXPECT_EQ(never, 0);
}

TEST(Loop, StopEndsEveryWait) {
  Loop loop;
  Queue<int> queue;
  Event event;
  int ended = 0;
  loop.spawn("reader", [&] {
    while (queue.pop()) {
    }
    ++ended;
  });
  loop.spawn("waiter", [&] {
    EXPECT_FALSE(event.wait());
    EXPECT_TRUE(fiber_cancelled());
    ++ended;
  });
  loop.spawn("sleeper", [&] {
    EXPECT_FALSE(sleep_for(1h));
    ++ended;
  });
  loop.spawn("careful", [&] {
    EXPECT_FALSE(sleep_for(1h));
    Shield shield;
    EXPECT_FALSE(fiber_cancelled());
    EXPECT_TRUE(sleep_for(2ms));
    ++ended;
  });
  loop.spawn("main", [&] { loop.stop(); });
  loop.run();
  EXPECT_EQ(ended, 4);
}

TEST(Loop, ALongTurnIsCounted) {
  Loop loop;
  loop.spawn("slow", [&] {
    yield_fiber();
    uint64_t before = loop.slow_turns();
    std::this_thread::sleep_for(15ms);  // what a handler must not do
    yield_fiber();
    EXPECT_EQ(loop.slow_turns(), before + 1);
    loop.stop();
  });
  loop.run();
}

TEST(Loop, PostsComeThroughWhileFibersAreAlwaysReady) {
  Loop loop;
  bool stop = false;
  for (int i = 0; i < 3; ++i)
    loop.spawn("busy", [&] {
      while (!stop) yield_fiber();
    });
  std::thread other([&] { loop.post([&] { stop = true; }); });
  loop.spawn("main", [&] {
    TimePoint limit = loop.deadline(10s);
    while (!stop && loop.now() < limit) yield_fiber();
    EXPECT_TRUE(stop);
    stop = true;
    loop.stop();
  });
  loop.run();
  other.join();
}

TEST(Loop, WorkOnAThreadGivesItsResultAndItsException) {
  WorkThreads threads("test-work", 2);
  run_in_loop([&] {
    auto loop_thread = std::this_thread::get_id();
    EXPECT_NE(run_on_thread(threads, [] { return std::this_thread::get_id(); }), loop_thread);
    EXPECT_THROW(run_on_thread(threads, [] { throw std::runtime_error("there"); }), std::runtime_error);
    bool other_ran = false;
    TaskGroup group;
    group.spawn("other", [&] { other_ran = true; });
    run_on_thread(threads, [&] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
    EXPECT_TRUE(other_ran);
  });
}

}  // namespace
}  // namespace rayo::base
