// If this fails: tasks are served out of turn, or a nested task starves behind its parents.
#include "runtime/raylet/local_queue.h"

#include <gtest/gtest.h>

#include "runtime/base/ids.h"

namespace rayo::raylet {
namespace {

using namespace std::chrono_literals;

LeaseWish wish(ProcessId process, uint64_t shape, int count, int depth, base::Duration since) {
  LeaseWish out;
  out.process = process;
  out.shape = shape;
  out.count = count;
  out.depth = depth;
  out.since = base::TimePoint(since);
  return out;
}

TEST(LocalQueue, DeeperFirstThenWhoWaitsLongest) {
  LocalQueue queue;
  auto process = base::random_id<ProcessId>();
  queue.request(wish(process, 1, 1, 0, 10ms));
  queue.request(wish(process, 2, 1, 0, 5ms));
  queue.request(wish(process, 3, 1, 2, 20ms));
  auto order = queue.order();
  ASSERT_EQ(order.size(), 3u);
  EXPECT_EQ(order[0].shape, 3u);
  EXPECT_EQ(order[1].shape, 2u);
  EXPECT_EQ(order[2].shape, 1u);
}

TEST(LocalQueue, ACountReplacesTheWishAndKeepsItsPlace) {
  LocalQueue queue;
  auto process = base::random_id<ProcessId>();
  queue.request(wish(process, 1, 5, 0, 10ms));
  queue.request(wish(process, 1, 3, 0, 90ms));
  const LeaseWish* found = queue.find({process, 1});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->count, 3);
  EXPECT_EQ(found->since, base::TimePoint(10ms));
  queue.granted({process, 1}, 2);
  EXPECT_EQ(queue.find({process, 1})->count, 1);
  queue.granted({process, 1});
  EXPECT_TRUE(queue.empty());
  queue.request(wish(process, 1, 3, 0, 1ms));
  queue.request(wish(process, 1, 0, 0, 1ms));
  EXPECT_TRUE(queue.empty());
}

TEST(LocalQueue, LabelsAndAffinityKeepADemandAway) {
  auto node = base::random_id<NodeId>(), other = base::random_id<NodeId>();
  const scheduler::Labels labels{{"zone", "a"}};
  EXPECT_TRUE(allowed_here({}, node, labels));
  EXPECT_TRUE(allowed_here({.node = node}, node, labels));
  EXPECT_FALSE(allowed_here({.node = other}, node, labels));
  EXPECT_TRUE(allowed_here({.labels = {{"zone", {"a", "b"}}}}, node, labels));
  EXPECT_FALSE(allowed_here({.labels = {{"zone", {"b"}}}}, node, labels));
  EXPECT_TRUE(allowed_here({.labels = {{"zone", {"b"}, true}}}, node, labels));
  EXPECT_FALSE(allowed_here({.labels = {{"zone", {}, true}}}, node, labels));
  EXPECT_FALSE(allowed_here({.labels = {{"disk", {}}}}, node, labels));
}

TEST(LocalQueue, WhatWasGrantedForNothingWaitsAgainInItsOldPlace) {
  LocalQueue queue;
  auto process = base::random_id<ProcessId>();
  queue.request(wish(process, 1, 1, 0, 10ms));
  LeaseWish granted = *queue.find({process, 1});
  queue.granted({process, 1});
  queue.put_back(granted);
  ASSERT_TRUE(queue.find({process, 1}));
  EXPECT_EQ(queue.find({process, 1})->since, base::TimePoint(10ms));
  queue.put_back(granted);
  EXPECT_EQ(queue.find({process, 1})->count, 2);
}

}  // namespace
}  // namespace rayo::raylet
