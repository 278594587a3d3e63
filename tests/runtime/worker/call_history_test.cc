// If these fail: `rayo list tasks` and timelines show calls that were not, at times that were not.
#include "runtime/worker/call_history.h"

#include <gtest/gtest.h>

#include "runtime/worker/call_notes.h"
#include "tests/runtime/worker/fake_wire.h"

namespace rayo::worker {
namespace {

constexpr ObjectId kOwn{1, 2, 0};

class CallHistoryTest : public testing::Test {
 protected:
  proto::CallsTold told(uint64_t most = CallHistory::kKept) {
    return call_notes({history_, ticks_, table_, kOwn}, most);
  }
  static int64_t now_us() {
    return std::chrono::duration_cast<std::chrono::microseconds>(base::system_clock().wall().time_since_epoch())
        .count();
  }

  FakeObserver observer_;
  ObjectTable table_{1, 2, observer_};
  CallHistory history_;
  const base::TickClock ticks_{base::system_clock()};
};

TEST_F(CallHistoryTest, ARunHasItsCallerItsNameAndItsTimes) {
  const int64_t before = now_us();
  const auto place = history_.began({7, 8, 9}, 5, "Counter::add");
  EXPECT_EQ(told().calls(0).state(), "running");
  const auto failed = history_.began({7, 8, 10}, 0, "half");
  history_.ended(failed, true, "a better name");
  history_.ended(place, false, nullptr);
  const int64_t after = now_us();
  const proto::CallsTold all = told();
  ASSERT_EQ(all.calls_size(), 2);
  const proto::CallNote& note = all.calls(0);
  EXPECT_EQ(note.call().home(), 7u);
  EXPECT_EQ(note.call().process(), 8u);
  EXPECT_EQ(note.call().counter(), 9u);
  EXPECT_EQ(note.actor(), 5u);
  EXPECT_EQ(note.name(), "Counter::add");
  EXPECT_FALSE(note.made());
  EXPECT_EQ(note.state(), "finished");
  EXPECT_LE(before - 1000, note.at_unix_us());
  EXPECT_LE(note.at_unix_us(), note.ended_at_unix_us());
  EXPECT_LE(note.ended_at_unix_us(), after + 1000);
  EXPECT_EQ(all.calls(1).state(), "failed");
  EXPECT_EQ(all.calls(1).name(), "a better name");
}

TEST_F(CallHistoryTest, WhatBecameOfACallThatIsMadeIsLookedUpWhenSomebodyAsks) {
  ObjectSlot& waiting = table_.mint();
  ObjectSlot& failed = table_.mint();
  ObjectSlot& finished = table_.mint();
  ObjectSlot& forgotten = table_.mint();
  for (ObjectSlot* slot : {&waiting, &failed, &finished, &forgotten}) history_.made(slot->id.counter, 0, "half", 0);
  table_.fail(failed, {});
  table_.fulfil(finished, bytes_of("4"));
  table_.fulfil(forgotten, bytes_of("4"));
  table_.release(forgotten);
  table_.drain();
  std::vector<std::string> states;
  const proto::CallsTold all = told();
  for (const proto::CallNote& note : all.calls()) {
    EXPECT_TRUE(note.made());
    EXPECT_EQ(note.call().home(), kOwn.home);
    EXPECT_EQ(note.call().process(), kOwn.process);
    states.push_back(note.state());
  }
  EXPECT_EQ(states, (std::vector<std::string>{"waiting", "failed", "finished", "ended"}));
}

TEST_F(CallHistoryTest, TheNewestAreKept) {
  const auto first = history_.began({7, 8, 1}, 0, "half");
  for (uint64_t i = 2; i <= CallHistory::kKept + 5; ++i) history_.made(i, 0, "half", 0);
  history_.ended(first, false, nullptr);  // overwritten since: nothing happens to who is there now
  const proto::CallsTold all = told();
  ASSERT_EQ(all.calls_size(), static_cast<int>(CallHistory::kKept));
  EXPECT_EQ(all.calls(0).call().counter(), 6u);
  for (const proto::CallNote& note : all.calls()) ASSERT_EQ(note.ended_at_unix_us(), 0);
  const proto::CallsTold some = told(3);
  ASSERT_EQ(some.calls_size(), 3);
  EXPECT_EQ(some.calls(2).call().counter(), CallHistory::kKept + 5);
}

TEST_F(CallHistoryTest, NothingIsToldOfNothing) { EXPECT_EQ(told().calls_size(), 0); }

}  // namespace
}  // namespace rayo::worker
