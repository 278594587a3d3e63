// What a user loses if these fail: a reference held on another node is not known at its home, and the object
// is freed under it.
#include "runtime/raylet/home_outbox.h"

#include <gtest/gtest.h>
#include <vector>

namespace rayo::raylet {
namespace {

class HomeOutboxTest : public testing::Test {
 protected:
  std::vector<proto::HoldObjectsRequest> sent_;
  HomeOutbox outbox_{NodeId{1, 1},
                     [this](uint64_t, const proto::HoldObjectsRequest& request) { sent_.push_back(request); }};
};

TEST_F(HomeOutboxTest, OneMessageAtATimeAndTheLastWordCounts) {
  ObjectId a{2, 1, 1}, b{2, 1, 2};
  outbox_.hold(a, true);
  outbox_.hold(b, true);
  outbox_.hold(b, false);
  outbox_.copy(a, 4096);
  ASSERT_EQ(sent_.size(), 1u);
  outbox_.acknowledged(2, 1);
  ASSERT_EQ(sent_.size(), 2u);
  EXPECT_EQ(sent_[1].number(), 2u);
  EXPECT_EQ(sent_[1].held_size(), 0);
  EXPECT_EQ(sent_[1].dropped_size(), 1);
  EXPECT_EQ(sent_[1].copies(0).size_bytes(), 4096);
  outbox_.acknowledged(2, 2);
  EXPECT_EQ(sent_.size(), 2u);
}

TEST_F(HomeOutboxTest, WhatFailedIsSentAgainWithItsNumber) {
  outbox_.hold(ObjectId{2, 1, 1}, true);
  outbox_.failed(2, 1);
  outbox_.hold(ObjectId{2, 1, 2}, true);
  EXPECT_EQ(sent_.size(), 1u);
  outbox_.retry();
  ASSERT_EQ(sent_.size(), 2u);
  EXPECT_EQ(sent_[1].number(), 1u);
  EXPECT_EQ(sent_[1].held(0).counter(), 1u);
}

TEST(HomeOutbox, HomesMayBeGivenUpWhileAllAreTriedAgain) {
  int sent = 0;
  HomeOutbox* all = nullptr;
  HomeOutbox outbox(NodeId{1, 1}, [&](uint64_t home, const proto::HoldObjectsRequest&) {
    if (++sent > 3) all->node_gone(home);
  });
  all = &outbox;
  for (uint64_t home : {2, 3, 4}) {
    outbox.hold(ObjectId{home, 1, 1}, true);
    outbox.failed(home, 1);
  }
  outbox.retry();
  EXPECT_EQ(sent, 6);
  EXPECT_TRUE(outbox.empty());
}

TEST_F(HomeOutboxTest, NothingIsOwedToADeadHome) {
  outbox_.hold(ObjectId{2, 1, 1}, true);
  outbox_.failed(2, 1);
  outbox_.node_gone(2);
  outbox_.retry();
  EXPECT_EQ(sent_.size(), 1u);
  EXPECT_TRUE(outbox_.empty());
}

// It lives on in the same life where only the head could not reach it, and does nothing for a number that it has seen.
TEST_F(HomeOutboxTest, ToAHomeThatIsBackFromTheDeadTheNumbersGoOn) {
  outbox_.hold(ObjectId{2, 1, 1}, true);
  outbox_.acknowledged(2, 1);
  outbox_.hold(ObjectId{2, 1, 2}, true);
  outbox_.node_gone(2);
  outbox_.hold(ObjectId{2, 1, 3}, true);
  ASSERT_EQ(sent_.size(), 3u);
  EXPECT_EQ(sent_[2].number(), 3u);
  outbox_.acknowledged(2, 2);  // an answer from before
  outbox_.failed(2, 2);
  outbox_.hold(ObjectId{2, 1, 4}, true);
  outbox_.retry();
  EXPECT_EQ(sent_.size(), 3u) << "the third is still under way";
  outbox_.acknowledged(2, 3);
  EXPECT_EQ(sent_.size(), 4u);
}

TEST(HomeOutbox, AHomeMayEndWhileItIsSentTo) {
  std::vector<uint64_t> sent;
  HomeOutbox* outbox = nullptr;
  bool ends = false;
  HomeOutbox made(NodeId{1, 1}, [&](uint64_t home, const proto::HoldObjectsRequest& request) {
    if (ends)
      for (uint64_t other = 2; other < 50; ++other) outbox->node_gone(other);
    EXPECT_EQ(request.held_size(), 1);
    sent.push_back(home);
  });
  outbox = &made;
  for (uint64_t home = 2; home < 50; ++home) {
    made.hold(ObjectId{home, 1, 1}, true);
    made.failed(home, 1);
  }
  sent.clear();
  ends = true;
  made.retry();
  EXPECT_EQ(sent.size(), 1u);
}

}  // namespace
}  // namespace rayo::raylet
