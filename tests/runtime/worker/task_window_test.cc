// If these fail: a short task is held up behind a long one, a task runs twice, or one that never ran is called failed.
#include "runtime/worker/task_window.h"

#include <gtest/gtest.h>

#include "tests/runtime/worker/task_wire.h"

namespace rayo::worker {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(TaskPaceTest, NothingIsExpectedOfAFunctionThatNeverEnded) {
  TaskPace pace;
  pace.took(1, microseconds(3));
  EXPECT_EQ(pace.expected(1), microseconds(3));
  EXPECT_EQ(pace.expected(2), kUnmeasured);
}

TEST(TaskPaceTest, ALongOneCountsAtOnceAndIsForgottenLittleByLittle) {
  TaskPace pace;
  for (int i = 0; i < 100; ++i) pace.took(1, microseconds(8));
  pace.took(1, milliseconds(80));
  EXPECT_EQ(pace.expected(1), milliseconds(80));
  pace.took(1, microseconds(0));
  EXPECT_EQ(pace.expected(1), milliseconds(70));
  for (int i = 0; i < 100; ++i) pace.took(1, microseconds(8));
  EXPECT_LT(pace.expected(1), microseconds(10));
}

TEST(TaskPaceTest, FunctionsWithoutEndDoNotFillMemory) {
  TaskPace pace;
  for (uint64_t code = 0; code < kMostPaces; ++code) pace.took(code, microseconds(3));
  pace.took(0, microseconds(3));
  EXPECT_EQ(pace.expected(1), microseconds(3));
  pace.took(kMostPaces, microseconds(4));
  EXPECT_EQ(pace.expected(kMostPaces), microseconds(4));
  EXPECT_EQ(pace.expected(1), kUnmeasured);
}

class TaskWindowTest : public testing::Test {
 protected:
  void send(uint64_t call_id, base::Duration expected) {
    window_.sent({call_id, 1, 1, expected, std::make_unique<OutgoingCall>(table_, wire_, table_.mint(), request_)},
                 now_);
  }
  std::vector<uint64_t> here() const {
    std::vector<uint64_t> ids;
    for (const auto& task : window_.tasks()) ids.push_back(task.call_id);
    return ids;
  }

  NobodyObserves observer_;
  ObjectTable table_{1, 2, observer_};
  TaskWire wire_;
  internal::CallRequest request_;
  base::TimePoint now_{};
  TaskWindow window_;
};

TEST_F(TaskWindowTest, TakesShortTasksAheadUpToAMillisecondOfWork) {
  EXPECT_TRUE(window_.takes(kUnmeasured));
  send(1, microseconds(400));
  EXPECT_FALSE(window_.takes(kUnmeasured));
  EXPECT_FALSE(window_.takes(microseconds(601)));
  EXPECT_TRUE(window_.takes(microseconds(600)));
  send(2, microseconds(600));
  EXPECT_FALSE(window_.takes(microseconds(1)));
  EXPECT_EQ(window_.ended(1, now_), uint64_t{1});
  EXPECT_TRUE(window_.takes(microseconds(400)));
}

TEST_F(TaskWindowTest, TakesNothingBehindATaskThatNobodyHasMeasured) {
  send(1, kUnmeasured);
  EXPECT_FALSE(window_.takes(microseconds(1)));
}

TEST_F(TaskWindowTest, TakesAFewDozenOfTheShortest) {
  for (uint64_t i = 0; i < kMostAhead; ++i) send(i, microseconds(1));
  EXPECT_FALSE(window_.takes(microseconds(1)));
}

TEST_F(TaskWindowTest, StallsOnceWhereNothingEndsForAWhileAndSomethingStandsBehind) {
  send(1, microseconds(1));
  now_ += 10 * kStall;
  EXPECT_EQ(window_.look_at(), base::kForever);
  EXPECT_FALSE(window_.stalled(now_));
  window_.ended(1, now_);

  send(2, microseconds(1));
  send(3, microseconds(1));
  send(4, microseconds(1));
  EXPECT_EQ(window_.look_at(), now_ + kStall);
  now_ += kStall - microseconds(1);
  EXPECT_FALSE(window_.stalled(now_));
  window_.ended(2, now_);
  now_ += microseconds(1);
  EXPECT_FALSE(window_.stalled(now_));  // it has moved on
  now_ = window_.look_at();
  EXPECT_TRUE(window_.stalled(now_));
  EXPECT_EQ(window_.first().call_id, 3u);
  EXPECT_FALSE(window_.stalled(now_ + kStall));
  EXPECT_EQ(window_.look_at(), base::kForever);
  EXPECT_FALSE(window_.takes(microseconds(1)));
  window_.ended(3, now_);
  EXPECT_TRUE(window_.takes(microseconds(1)));
}

TEST_F(TaskWindowTest, WhatWasGivenBackIsNotHereAnyMore) {
  for (uint64_t i = 1; i <= 3; ++i) send(i, microseconds(10));
  std::unique_ptr<OutgoingCall> call;
  EXPECT_TRUE(window_.returned(3, call));
  EXPECT_TRUE(call);
  window_.given_up(2);
  EXPECT_TRUE(window_.returned(2, call));
  EXPECT_FALSE(call);
  EXPECT_FALSE(window_.returned(2, call));
  EXPECT_EQ(here(), std::vector<uint64_t>{1});
  EXPECT_EQ(window_.expected(), microseconds(10));
}

TEST_F(TaskWindowTest, NothingIsSentBehindATaskThatWasGivenUp) {
  send(1, microseconds(1));
  window_.given_up(1);
  EXPECT_FALSE(window_.takes(microseconds(1)));
  EXPECT_EQ(window_.ended(1, now_), uint64_t{1});
  EXPECT_EQ(window_.expected(), base::Duration::zero());
  EXPECT_EQ(window_.ended(1, now_), std::nullopt);
}

TEST_F(TaskWindowTest, ADeadWorkerMayHaveBegunTheFirstWithoutAnAnswerAndNoOther) {
  for (uint64_t i = 1; i <= 4; ++i) send(i, microseconds(1));
  window_.ended(1, now_);
  window_.given_up(3);
  EXPECT_EQ(window_.take_unbegun().size(), 1u);  // 4; nobody waits for 3
  EXPECT_EQ(here(), std::vector<uint64_t>{2});
}

}  // namespace
}  // namespace rayo::worker
