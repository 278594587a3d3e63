// What a user loses if these fail: an actor whose handle is on its way from one node to another ends in between.
#include "runtime/raylet/hold_marks.h"

#include <gtest/gtest.h>

namespace rayo::raylet {
namespace {

struct HoldMarksTest : testing::Test {
  HoldMarks marks;
};

TEST_F(HoldMarksTest, WithoutAHoldNobodyWaits) {
  auto mark = marks.ask();
  EXPECT_FALSE(mark.fresh);
  EXPECT_TRUE(marks.known(mark.number));
}

TEST_F(HoldMarksTest, AHoldIsKnownWhenItsMarkCameBack) {
  marks.told();
  auto first = marks.ask();
  ASSERT_TRUE(first.fresh);
  EXPECT_FALSE(marks.known(first.number));
  marks.told();
  auto second = marks.ask();
  ASSERT_TRUE(second.fresh) << "the hold came behind the first mark";
  marks.heard(first.number);
  EXPECT_TRUE(marks.known(first.number));
  EXPECT_FALSE(marks.known(second.number));
  marks.heard(second.number);
  EXPECT_TRUE(marks.known(second.number));
}

TEST_F(HoldMarksTest, WhoAsksWhileAMarkIsOnItsWayWaitsForThatOne) {
  marks.told();
  auto mark = marks.ask();
  auto same = marks.ask();
  EXPECT_FALSE(same.fresh);
  EXPECT_EQ(same.number, mark.number);
  EXPECT_FALSE(marks.known(same.number));
}

TEST_F(HoldMarksTest, AMarkThatOutlivedItsStreamSaysNothing) {
  marks.told();
  auto lost = marks.ask();
  marks.told();
  auto unsent = marks.ask();
  const uint64_t again = marks.told_again();
  marks.heard(unsent.number);
  EXPECT_FALSE(marks.known(lost.number)) << "its hold may have gone with the stream, and is told only now";
  EXPECT_FALSE(marks.known(unsent.number));
  marks.heard(again);
  EXPECT_TRUE(marks.known(lost.number));
  EXPECT_TRUE(marks.known(unsent.number));
}

}  // namespace
}  // namespace rayo::raylet
