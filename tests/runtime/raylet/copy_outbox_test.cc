// What a user loses if these fail: copies of objects that are gone fill the arenas of other nodes for ever.
#include "runtime/raylet/copy_outbox.h"

#include <gtest/gtest.h>
#include <vector>

namespace rayo::raylet {
namespace {

class CopyOutboxTest : public testing::Test {
 protected:
  std::vector<uint64_t> counters(size_t message) const {
    std::vector<uint64_t> out;
    for (const auto& object : sent_.at(message).second.objects()) out.push_back(object.counter());
    return out;
  }
  std::vector<std::pair<uint64_t, proto::DropCopiesRequest>> sent_;
  CopyOutbox outbox_{NodeId{1, 1},
                     [this](uint64_t holder, const auto& request) { sent_.emplace_back(holder, request); }};
};

TEST_F(CopyOutboxTest, OneMessageAtATimeAndNothingIsKeptOfWhatWasAnswered) {
  for (uint64_t counter : {1, 2, 3}) outbox_.gone(2, ObjectId{1, 1, counter});
  outbox_.gone(3, ObjectId{1, 1, 1});
  ASSERT_EQ(sent_.size(), 2u);
  EXPECT_EQ(counters(0), std::vector<uint64_t>{1});
  EXPECT_EQ(sent_[1].first, 3u);
  outbox_.acknowledged(2);
  ASSERT_EQ(sent_.size(), 3u);
  EXPECT_EQ(counters(2), (std::vector<uint64_t>{2, 3}));
  outbox_.acknowledged(2);
  outbox_.acknowledged(3);
  EXPECT_EQ(sent_.size(), 3u);
  EXPECT_TRUE(outbox_.empty());
}

TEST_F(CopyOutboxTest, WhatCouldNotBeToldIsToldAgainWithWhatHasGoneMeanwhile) {
  outbox_.gone(2, ObjectId{1, 1, 1});
  outbox_.failed(2);
  outbox_.gone(2, ObjectId{1, 1, 2});
  EXPECT_EQ(sent_.size(), 1u) << "the way is broken";
  outbox_.retry();
  ASSERT_EQ(sent_.size(), 2u);
  EXPECT_EQ(counters(1), (std::vector<uint64_t>{1, 2}));
  outbox_.retry();
  EXPECT_EQ(sent_.size(), 2u) << "it is under way";
  outbox_.acknowledged(2);
  EXPECT_TRUE(outbox_.empty());
}

TEST_F(CopyOutboxTest, NothingIsOwedToADeadNode) {
  outbox_.gone(2, ObjectId{1, 1, 1});
  outbox_.failed(2);
  outbox_.node_gone(2);
  outbox_.retry();
  EXPECT_EQ(sent_.size(), 1u);
  EXPECT_TRUE(outbox_.empty());
}

TEST_F(CopyOutboxTest, ManyGoInSeveralMessages) {
  outbox_.gone(2, ObjectId{1, 1, 0});
  for (uint64_t counter = 1; counter <= 15'000; ++counter) outbox_.gone(2, ObjectId{1, 1, counter});
  outbox_.acknowledged(2);
  outbox_.acknowledged(2);
  ASSERT_EQ(sent_.size(), 3u);
  EXPECT_EQ(sent_[1].second.objects_size() + sent_[2].second.objects_size(), 15'000);
}

TEST(CopyOutbox, ANodeMayEndWhileItIsSentTo) {
  int sent = 0;
  CopyOutbox* all = nullptr;
  CopyOutbox outbox(NodeId{1, 1}, [&](uint64_t holder, const proto::DropCopiesRequest&) {
    if (++sent > 3) all->node_gone(holder);
  });
  all = &outbox;
  for (uint64_t holder : {2, 3, 4}) {
    outbox.gone(holder, ObjectId{1, 1, 1});
    outbox.failed(holder);
  }
  outbox.retry();
  EXPECT_EQ(sent, 6);
  EXPECT_TRUE(outbox.empty());
}

}  // namespace
}  // namespace rayo::raylet
