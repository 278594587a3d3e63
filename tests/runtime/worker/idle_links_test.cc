// If these fail: a process that once talked to many keeps their rings for ever, or one that is used is taken away.
#include "runtime/worker/idle_links.h"

#include <gtest/gtest.h>
#include <map>

namespace rayo::worker {
namespace {

using namespace std::chrono_literals;
using Peers = std::vector<PeerId>;

class IdleLinksTest : public testing::Test {
 protected:
  IdleLinks::Idle look() {
    return links_.look(
        now_, [&](PeerId peer) { return used_[peer]; }, [&](PeerId peer) { return !busy_[peer]; });
  }
  base::TimePoint now_{1h};
  std::map<PeerId, base::TimePoint> used_{{1, now_}, {2, now_}};
  std::map<PeerId, bool> busy_;
  IdleLinks links_{30s};
};

TEST_F(IdleLinksTest, NothingToLookAtIsNeverLookedAt) {
  EXPECT_EQ(links_.next_look(now_), base::kForever);
  links_.opened(1, IdleLinks::Way::kRing);
  EXPECT_EQ(links_.next_look(now_), now_ + 10s);
  links_.closed(1);
  EXPECT_EQ(links_.next_look(now_), base::kForever);
}

TEST_F(IdleLinksTest, AConnectionIsClosedAndARingOfferedAfterTheSpanWithoutUse) {
  links_.opened(1, IdleLinks::Way::kTcp);
  links_.opened(2, IdleLinks::Way::kRing);
  now_ += 29s;
  EXPECT_TRUE(look().close.empty());
  used_[2] = now_;
  now_ += 1s;
  auto idle = look();
  EXPECT_EQ(idle.close, Peers{1});
  EXPECT_TRUE(idle.offer.empty());
  links_.closed(1);
  now_ += 29s;
  EXPECT_EQ(look().offer, Peers{2});
  EXPECT_TRUE(links_.offered(2));
  now_ += 1h;
  EXPECT_TRUE(look().offer.empty());  // once: the answer is waited for
  EXPECT_EQ(links_.next_look(now_), base::kForever);
}

TEST_F(IdleLinksTest, WhatHasACallUnderWayIsLeftAloneHoweverLongItTakes) {
  links_.opened(1, IdleLinks::Way::kTcp);
  links_.opened(2, IdleLinks::Way::kRing);
  busy_ = {{1, true}, {2, true}};
  now_ += 1h;
  auto idle = look();
  EXPECT_TRUE(idle.close.empty() && idle.offer.empty());
}

TEST_F(IdleLinksTest, ARingThatTheOtherSideKeepsIsOfferedAgainOnlyAfterAnotherSpan) {
  links_.opened(2, IdleLinks::Way::kRing);
  EXPECT_FALSE(links_.kept(2));
  now_ += 30s;
  EXPECT_EQ(look().offer, Peers{2});
  used_[2] = now_;  // the offer and its answer are frames
  EXPECT_TRUE(links_.kept(2));
  EXPECT_FALSE(links_.offered(2));
  now_ += 29s;
  EXPECT_TRUE(look().offer.empty());
  now_ += 1s;
  EXPECT_EQ(look().offer, Peers{2});
  EXPECT_FALSE(links_.kept(7));
}

}  // namespace
}  // namespace rayo::worker
