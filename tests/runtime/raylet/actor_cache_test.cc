// If this fails: a caller keeps calling an actor that has moved, or never hears of it.
#include "runtime/raylet/actor_cache.h"

#include <gtest/gtest.h>

#include "runtime/base/ids.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::raylet {
namespace {

class ActorCacheTest : public testing::Test {
 protected:
  proto::ActorInfo info(proto::ActorState state, uint32_t incarnation) const {
    proto::ActorInfo out;
    *out.mutable_actor() = rpc::to_proto(actor_);
    out.set_state(state);
    out.set_incarnation(incarnation);
    return out;
  }
  ActorId actor_ = base::random_id<ActorId>();
  ProcessId one_ = base::random_id<ProcessId>(), two_ = base::random_id<ProcessId>();
  ActorCache cache_;
};

TEST_F(ActorCacheTest, TheFirstWatcherAsksAndEachHearsOfChanges) {
  EXPECT_TRUE(cache_.watch(actor_, one_).ask_head);
  EXPECT_FALSE(cache_.watch(actor_, two_).ask_head);
  EXPECT_EQ(cache_.update(info(proto::ALIVE, 1), ActorCache::Source::kHead).size(), 2u);
  EXPECT_TRUE(cache_.update(info(proto::ALIVE, 1), ActorCache::Source::kHead).empty());  // no news
  EXPECT_EQ(cache_.watch(actor_, one_).known->state(), proto::ALIVE);
  EXPECT_FALSE(cache_.unwatch(actor_, one_));
  EXPECT_TRUE(cache_.unwatch(actor_, two_));
  EXPECT_EQ(cache_.find(actor_), nullptr);
}

TEST_F(ActorCacheTest, OwnNewsCountOnlyWhereTheyAreNewer) {
  cache_.watch(actor_, one_);
  EXPECT_EQ(cache_.update(info(proto::DEAD, 2), ActorCache::Source::kHead).size(), 1u);
  EXPECT_TRUE(cache_.update(info(proto::ALIVE, 2), ActorCache::Source::kHere).empty());
  EXPECT_EQ(cache_.update(info(proto::ALIVE, 3), ActorCache::Source::kHere).size(), 1u);
  EXPECT_EQ(cache_.update(info(proto::STARTING, 3), ActorCache::Source::kHead).size(),
            1u);  // the head is always believed
}

TEST_F(ActorCacheTest, UnwatchedActorsAreNoNews) {
  EXPECT_TRUE(cache_.update(info(proto::ALIVE, 1), ActorCache::Source::kHead).empty());
  EXPECT_EQ(cache_.find(actor_), nullptr);
}

TEST_F(ActorCacheTest, OnlyTheFirstHandleAndTheLastAreTold) {
  EXPECT_TRUE(cache_.hold(actor_, one_));
  EXPECT_FALSE(cache_.hold(actor_, one_));
  EXPECT_FALSE(cache_.hold(actor_, two_));
  EXPECT_FALSE(cache_.drop(actor_, one_));
  EXPECT_FALSE(cache_.drop(actor_, one_));
  EXPECT_TRUE(cache_.drop(actor_, two_));
}

TEST_F(ActorCacheTest, ADeadProcessWatchesAndHoldsNothing) {
  cache_.watch(actor_, one_);
  cache_.hold(actor_, one_);
  cache_.hold(actor_, two_);
  auto left = cache_.process_gone(one_);
  EXPECT_EQ(left.unwatched.size(), 1u);
  EXPECT_TRUE(left.dropped.empty());
  left = cache_.process_gone(two_);
  EXPECT_EQ(left.dropped.size(), 1u);
}

}  // namespace
}  // namespace rayo::raylet
