// If these fail: a result is lost or read after it was freed, or a process keeps every value it ever saw.
#include "runtime/worker/object_table.h"

#include <gtest/gtest.h>
#include <thread>
#include <vector>

namespace rayo::worker {
namespace {

internal::Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

struct Observer : ObjectObserver {
  void freeing(ObjectSlot& slot) override { freed.push_back(slot.id); }
  void release_actors(std::span<const ActorId> actors) override { actors_released += actors.size(); }
  std::vector<ObjectId> freed;
  size_t actors_released = 0;
};

class ObjectTableTest : public testing::Test {
 protected:
  void let_go(ObjectSlot& slot) {
    table_.release(slot);
    table_.drain();
  }
  Observer observer_;
  ObjectTable table_{1, 2, observer_};
};

TEST_F(ObjectTableTest, AResultIsFoundByItsCallAndReadInPlace) {
  ObjectSlot& slot = table_.mint();
  EXPECT_EQ(table_.own(slot.id.counter), &slot);
  EXPECT_FALSE(slot.ready());
  table_.fulfil(slot, bytes_of("seven"));
  ASSERT_TRUE(slot.ready());
  EXPECT_EQ(slot.view().bytes.size(), 5u);
  table_.fail(slot, {});  // (3) a filled slot does not change
  EXPECT_EQ(slot.view().error, nullptr);
}

TEST_F(ObjectTableTest, ALateReplyFindsNothingInAReusedSlot) {
  ObjectSlot& slot = table_.mint();
  const uint64_t counter = slot.id.counter;
  let_go(slot);
  EXPECT_EQ(table_.own(counter), nullptr);
  ObjectSlot& again = table_.mint();
  EXPECT_EQ(&again, &slot);
  EXPECT_NE(again.id.counter, counter);  // (4)
  EXPECT_EQ(table_.own(counter), nullptr);
}

// A loop of calls uses one slot again and again: after hours an id would come back that others still hold.
TEST_F(ObjectTableTest, ASlotEndsWithItsLastGeneration) {  // (4)
  ObjectSlot& slot = table_.mint();
  slot.generation = ObjectSlot::kLastGeneration - 1;
  let_go(slot);
  ObjectSlot& last = table_.mint();
  ASSERT_EQ(&last, &slot);
  EXPECT_EQ(last.id.counter >> 32, ObjectSlot::kLastGeneration);
  let_go(last);
  EXPECT_NE(&table_.mint(), &slot);
  EXPECT_NE(&table_.adopt({9, 9, 9}), &slot);
  EXPECT_EQ(table_.live(), 2u);
}

TEST_F(ObjectTableTest, ACallWhoseHandleWasDroppedIsFreedByItsReply) {
  ObjectSlot& slot = table_.mint();
  slot.call = true;
  let_go(slot);
  EXPECT_EQ(table_.live(), 1u);  // (2)
  table_.fulfil(slot, bytes_of(std::string(200, 'x')));
  EXPECT_EQ(table_.live(), 0u);
}

TEST_F(ObjectTableTest, HooksRunOnceAndMayBeForgotten) {
  struct Hook : ReadyHook {
    int runs = 0;
  };
  Hook one, two;
  one.ready = two.ready = [](ReadyHook& hook) { ++static_cast<Hook&>(hook).runs; };
  ObjectSlot& slot = table_.mint();
  table_.await(slot, one);
  table_.await(slot, two);
  table_.forget(slot, one);
  table_.fulfil(slot, {});
  EXPECT_EQ(one.runs, 0);
  EXPECT_EQ(two.runs, 1);
}

// A wait() whose refs are dropped meanwhile must find its hook in the slot that it waits for, not in freed memory.
TEST_F(ObjectTableTest, ASlotThatSomebodyAwaitsOutlivesItsHandles) {
  struct Hook : ReadyHook {
    int runs = 0;
  } hook;
  hook.ready = [](ReadyHook& self) { ++static_cast<Hook&>(self).runs; };
  ObjectSlot& slot = table_.mint();
  table_.await(slot, hook);
  let_go(slot);
  EXPECT_EQ(table_.live(), 1u);
  table_.fulfil(slot, bytes_of("late"));
  EXPECT_EQ(hook.runs, 1);
  EXPECT_EQ(table_.live(), 0u);
}

TEST_F(ObjectTableTest, WhatAValueHoldsIsLetGoWithIt) {
  ObjectSlot& inner = table_.mint();
  table_.fulfil(inner, bytes_of("inner"));
  ObjectSlot& outer = table_.mint();
  Inner held;
  held.refs.push_back(inner.handle());
  held.actors = std::make_unique<std::vector<ActorId>>(2);
  table_.fulfil(outer, {}, std::move(held));
  EXPECT_EQ(table_.live(), 2u);
  let_go(outer);
  EXPECT_EQ(table_.live(), 0u);
  EXPECT_EQ(observer_.actors_released, 2u);
}

TEST_F(ObjectTableTest, OnlyWhatOthersKnowIsSpokenOf) {
  ObjectSlot& own = table_.mint();
  EXPECT_FALSE(table_.release(own));
  ObjectSlot& foreign = table_.adopt({9, 9, 9});
  EXPECT_EQ(&table_.adopt({9, 9, 9}), &foreign);
  foreign.shared = true;
  EXPECT_FALSE(table_.release(foreign));
  EXPECT_TRUE(table_.release(foreign));
  table_.drain();
  EXPECT_EQ(observer_.freed, std::vector<ObjectId>({{9, 9, 9}}));
  EXPECT_EQ(table_.find({9, 9, 9}), nullptr);
}

TEST_F(ObjectTableTest, HandlesAreDroppedFromAnyThread) {
  constexpr int kThreads = 4, kEach = 5'000;
  std::vector<ObjectSlot*> slots;
  for (int i = 0; i < kThreads * kEach; ++i) {
    slots.push_back(&table_.mint());
    table_.fulfil(*slots.back(), {});
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        ObjectSlot& slot = *slots[static_cast<size_t>(t * kEach + i)];
        ObjectTable::retain(slot);
        table_.release(slot);
        table_.release(slot);
      }
    });
  for (int i = 0; i < 100; ++i) {
    table_.drain();
    ObjectSlot& reused = table_.mint();  // slots come back into use while others are let go
    table_.release(reused);
  }
  for (std::thread& thread : threads) thread.join();
  table_.drain();
  EXPECT_EQ(table_.live(), 0u);
}

}  // namespace
}  // namespace rayo::worker
