// If this fails, fibers of a daemon miss what they wait for, or wait for ever.
#include "runtime/base/loop/event.h"

#include <gtest/gtest.h>
#include <mutex>
#include <string>
#include <vector>

namespace rayo::base {
namespace {

using namespace std::chrono_literals;

TEST(Event, WakesAllAndStaysSet) {
  run_in_loop([] {
    Event event;
    int woken = 0;
    TaskGroup group;
    for (int i = 0; i < 3; ++i)
      group.spawn("waiter", [&] {
        EXPECT_TRUE(event.wait());
        ++woken;
      });
    yield_fiber();
    EXPECT_EQ(woken, 0);
    event.set();
    group.join();
    EXPECT_EQ(woken, 3);
    EXPECT_TRUE(event.wait());
    event.reset();
    EXPECT_FALSE(event.wait(current_loop()->deadline(1ms)));
  });
}

TEST(Event, ADeadlineThatHasPassedDoesNotWait) {
  run_in_loop([] {
    Event event;
    EXPECT_FALSE(event.wait(current_loop()->now() - 1s));
    EXPECT_FALSE(fiber_cancelled());
  });
}

TEST(OneShot, TheFirstValueCounts) {
  run_in_loop([] {
    OneShot<std::string> shot;
    TaskGroup group;
    group.spawn("setter", [&] {
      EXPECT_TRUE(shot.set("first"));
      EXPECT_FALSE(shot.set("second"));
    });
    EXPECT_EQ(shot.wait(), "first");
    OneShot<int> never;
    EXPECT_EQ(never.wait(current_loop()->deadline(1ms)), std::nullopt);
  });
}

TEST(Queue, KeepsOrderAndEndsWhenClosedAndEmpty) {
  run_in_loop([] {
    Queue<int> queue;
    std::vector<int> got;
    TaskGroup group;
    group.spawn("reader", [&] {
      while (auto item = queue.pop()) got.push_back(*item);
    });
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(queue.push(i));
    yield_fiber();
    queue.push(3);
    queue.close();
    EXPECT_FALSE(queue.push(4));
    group.join();
    EXPECT_EQ(got, (std::vector<int>{0, 1, 2, 3}));
  });
}

TEST(Queue, EachItemGoesToOneOfManyReaders) {
  run_in_loop([] {
    Queue<int> queue;
    int sum = 0;
    TaskGroup group;
    for (int i = 0; i < 4; ++i)
      group.spawn("reader", [&] {
        while (auto item = queue.pop()) {
          sum += *item;
          yield_fiber();
        }
      });
    for (int i = 1; i <= 100; ++i) {
      queue.push(i);
      if (i % 7 == 0) yield_fiber();
    }
    queue.close();
    group.join();
    EXPECT_EQ(sum, 5050);
  });
}

TEST(Mutex, KeepsOthersOutAcrossAWait) {
  run_in_loop([] {
    Mutex mutex;
    int inside = 0;
    TaskGroup group;
    for (int i = 0; i < 5; ++i)
      group.spawn("worker", [&] {
        std::lock_guard lock(mutex);
        EXPECT_EQ(++inside, 1);
        sleep_for(1ms);
        --inside;
      });
    group.join();
  });
}

TEST(Semaphore, CountsAndTimesOut) {
  run_in_loop([] {
    Semaphore room(2);
    EXPECT_TRUE(room.acquire());
    EXPECT_TRUE(room.acquire());
    EXPECT_FALSE(room.acquire(current_loop()->deadline(1ms)));
    TaskGroup group;
    group.spawn("releaser", [&] { room.release(); });
    EXPECT_TRUE(room.acquire(current_loop()->deadline(10s)));
  });
}

TEST(TaskGroup, CancelsItsOwnFibersOnly) {
  run_in_loop([] {
    Event forever;
    bool first_cancelled = false;
    TaskGroup kept;
    Event done;
    bool kept_result = false;
    kept.spawn("kept", [&] { kept_result = done.wait(); });
    {
      TaskGroup ended;
      ended.spawn("ended", [&] {
        forever.wait();
        first_cancelled = fiber_cancelled();
      });
      yield_fiber();
      EXPECT_EQ(ended.size(), 1);
    }
    EXPECT_TRUE(first_cancelled);
    done.set();
    EXPECT_TRUE(kept.join(current_loop()->deadline(10s)));
    EXPECT_TRUE(kept_result);
  });
}

TEST(TaskGroup, AFiberSpawnedAfterTheCancelIsCancelled) {
  run_in_loop([] {
    TaskGroup group;
    group.cancel();
    bool cancelled = false;
    group.spawn("late", [&] { cancelled = fiber_cancelled(); });
    EXPECT_TRUE(group.join());
    EXPECT_TRUE(cancelled);
  });
}

TEST(TaskGroup, JoinTimesOut) {
  run_in_loop([] {
    TaskGroup group;
    Event event;
    group.spawn("waits", [&] { event.wait(); });
    EXPECT_FALSE(group.join(current_loop()->deadline(1ms)));
    event.set();
    EXPECT_TRUE(group.join(current_loop()->deadline(10s)));
  });
}

}  // namespace
}  // namespace rayo::base
