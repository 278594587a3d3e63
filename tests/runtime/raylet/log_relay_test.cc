// If this fails: one worker that prints without end floods the driver's terminal or hides the others.
#include "runtime/raylet/log_relay.h"

#include <gtest/gtest.h>

#include "runtime/base/ids.h"

namespace rayo::raylet {
namespace {

using namespace std::chrono_literals;

TEST(LogRelay, ABurstPassesAndThenTheRate) {
  LogRelay relay({.lines_per_second = 100, .burst = 500});
  auto loud = base::random_id<ProcessId>(), quiet = base::random_id<ProcessId>();
  base::TimePoint now{1h};
  auto first = relay.admit(loud, 800, now);
  EXPECT_EQ(first.lines, 500);
  EXPECT_EQ(relay.admit(quiet, 3, now).lines, 3);
  EXPECT_EQ(relay.admit(loud, 800, now + 1s).lines, 100);
  EXPECT_EQ(relay.admit(loud, 800, now + 1h).lines, 500);  // never more than the burst
}

// A flood of pieces must not become a flood of notes, and no dropped line may go uncounted.
TEST(LogRelay, WhatWasLeftOutIsToldOnceASecondAndAddsUp) {
  LogRelay relay({.lines_per_second = 0, .burst = 10});
  auto loud = base::random_id<ProcessId>();
  base::TimePoint now{1h};
  EXPECT_EQ(relay.next_due(), base::kForever);
  int64_t told = 0, notes = 0, passed = 0;
  for (int piece = 0; piece < 2'500; ++piece, now += 1ms) {
    auto admitted = relay.admit(loud, 100, now);
    passed += admitted.lines;
    told += admitted.dropped;
    notes += admitted.dropped != 0;
  }
  EXPECT_EQ(notes, 2);
  EXPECT_TRUE(relay.due(now).empty());
  ASSERT_NE(relay.next_due(), base::kForever);
  auto rest = relay.due(relay.next_due());  // the flood is over: a timer tells the rest
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].first, loud);
  EXPECT_EQ(passed + told + rest[0].second, 250'000);
  EXPECT_EQ(relay.next_due(), base::kForever);
}

}  // namespace
}  // namespace rayo::raylet
