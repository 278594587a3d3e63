// What a user loses if these fail: a value that is read later than its maker has let go of it holds dead handles; or what
// lay in a value that is long gone is never freed.
#include "runtime/raylet/inner_holds.h"

#include <gtest/gtest.h>

namespace rayo::raylet {
namespace {

const ObjectId kOne{1, 1, 1}, kOther{1, 1, 2}, kRef{2, 2, 1};
const ActorId kActor{7, 7}, kSecond{7, 8};

struct InnerHoldsTest : testing::Test {
  InnerHolds inner;
};

TEST_F(InnerHoldsTest, WhatAValueHoldsIsKeptUntilItIsGone) {
  auto held = inner.keep(kOne, {{kRef}, {kActor, kSecond}});
  EXPECT_EQ(held.refs, std::vector{kRef});
  EXPECT_EQ(held.actors, (std::vector{kActor, kSecond}));
  auto dropped = inner.let_go(kOne);
  EXPECT_EQ(dropped.refs, std::vector{kRef});
  EXPECT_EQ(dropped.actors, (std::vector{kActor, kSecond}));
}

TEST_F(InnerHoldsTest, OfSeveralValuesTheLastOneCounts) {
  (void)inner.keep(kOne, {{kRef}, {kActor}});
  EXPECT_TRUE(inner.keep(kOther, {{kRef}, {kActor}}).empty()) << "held already";
  EXPECT_TRUE(inner.let_go(kOne).empty()) << "the other one still holds them";
  EXPECT_EQ(inner.let_go(kOther).actors, std::vector{kActor});
}

TEST_F(InnerHoldsTest, AValueMayHoldTheSameTwice) {
  EXPECT_EQ(inner.keep(kOne, {{}, {kActor, kActor}}).actors, std::vector{kActor});
  EXPECT_EQ(inner.let_go(kOne).actors, std::vector{kActor});
}

TEST_F(InnerHoldsTest, WhatIsToldTwiceCountsOnce) {
  (void)inner.keep(kOne, {{kRef}, {kActor}});
  EXPECT_TRUE(inner.keep(kOne, {{kRef}, {kActor}}).empty());
  EXPECT_FALSE(inner.let_go(kOne).empty());
  EXPECT_TRUE(inner.let_go(kOne).empty());
}

}  // namespace
}  // namespace rayo::raylet
