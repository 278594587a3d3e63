#include "runtime/raylet/local_starts.h"

#include <gtest/gtest.h>

#include "runtime/rpc/proto_demand.h"

namespace rayo::raylet {
namespace {

using base::Amount;
using scheduler::Resources;

const ActorId kActor{1, 2};

struct MayStartHere : testing::Test {
  Job job{.id = {3, 3}, .node = {5, 5}};
  scheduler::ViewNode here{.id = {5, 5}, .capacity = scheduler::Capacity(Resources{{"cpu", Amount::of(4)}}, {})};
  proto::ActorSpec spec;

  MayStartHere() {
    rpc::to_proto(kActor, spec.mutable_actor());
    *spec.mutable_demand()->mutable_to_place() = rpc::to_proto(Resources{{"cpu", Amount::of(1)}});
  }
};

TEST_F(MayStartHere, OnTheNodeOfItsDriverWhileThatIsNotHalfFull) {
  EXPECT_TRUE(may_start_here(spec, &job, here));
  here.soft_load = Resources{{"cpu", Amount::of(1)}};
  EXPECT_TRUE(may_start_here(spec, &job, here));
  here.soft_load = Resources{{"cpu", Amount::of(2)}};
  EXPECT_FALSE(may_start_here(spec, &job, here)) << "the head packs no further";
}

TEST_F(MayStartHere, NotWhereTheDriverIsElsewhereOrUnknown) {
  job.node = {6, 6};
  EXPECT_FALSE(may_start_here(spec, &job, here));
  EXPECT_FALSE(may_start_here(spec, nullptr, here));
}

TEST_F(MayStartHere, NotWhatMayBeRefusedAName) {
  spec.set_name("hits");
  EXPECT_FALSE(may_start_here(spec, &job, here));
}

TEST_F(MayStartHere, NotWhatBelongsElsewhere) {
  spec.mutable_demand()->set_spread(true);
  EXPECT_FALSE(may_start_here(spec, &job, here));
  spec.mutable_demand()->set_spread(false);
  rpc::to_proto(NodeId{6, 6}, spec.mutable_demand()->mutable_node());
  spec.mutable_demand()->set_node_soft(true);
  EXPECT_FALSE(may_start_here(spec, &job, here));
  rpc::to_proto(here.id, spec.mutable_demand()->mutable_node());
  EXPECT_TRUE(may_start_here(spec, &job, here));
  spec.mutable_demand()->add_labels()->set_key("disk");
  EXPECT_FALSE(may_start_here(spec, &job, here));
}

TEST_F(MayStartHere, NotWhatDoesNotFit) {
  *spec.mutable_demand()->mutable_resources() = rpc::to_proto(Resources{{"tpu", Amount::of(1)}});
  EXPECT_FALSE(may_start_here(spec, &job, here));
}

TEST(LocalStarts, NewsAreHeldBackInTheirOrderUntilTheHeadHasAnswered) {
  LocalStarts starts;
  proto::ActorInfo info;
  rpc::to_proto(kActor, info.mutable_actor());
  EXPECT_FALSE(starts.hold_back(info));
  starts.begin(kActor);
  EXPECT_TRUE(starts.under_way(kActor));
  info.set_state(proto::ALIVE);
  EXPECT_TRUE(starts.hold_back(info));
  info.set_state(proto::DEAD);
  EXPECT_TRUE(starts.hold_back(info));
  auto told = starts.end(kActor);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].state(), proto::ALIVE);
  EXPECT_EQ(told[1].state(), proto::DEAD);
  EXPECT_FALSE(starts.under_way(kActor));
  EXPECT_FALSE(starts.hold_back(info));
}

}  // namespace
}  // namespace rayo::raylet
