// What a user loses if these fail: a node that only stuttered is declared dead, a dead one is waited for, or
// the same CPUs are given away twice. Numbers are the invariants of runtime/head/node_table.h.
#include "runtime/head/node_table.h"

#include <gtest/gtest.h>

#include "runtime/rpc/proto_demand.h"
#include "tests/testkit/manual_clock.h"

namespace rayo::head {
namespace {

using scheduler::Amount;
using scheduler::NodeState;

proto::Register registering(uint64_t n, uint64_t incarnation = 1, double cpus = 4) {
  proto::Register out;
  rpc::to_proto(NodeId{n, n}, out.mutable_node()->mutable_node());
  out.mutable_node()->set_hostname("host" + std::to_string(n));
  *out.mutable_node()->mutable_total() = rpc::to_proto(base::Resources{{"cpu", Amount::of(cpus)}});
  *out.mutable_node()->mutable_free() = out.node().total();
  out.set_incarnation(incarnation);
  return out;
}

struct NodeTableTest : ::testing::Test {
  testkit::ManualClock clock;
  NodeTable nodes;
  std::vector<NodeTable::Change> changes;
  const NodeId id{1, 1};

  void SetUp() override { nodes.put(registering(1), clock.now()); }
  proto::BeatReply beat(uint64_t incarnation = 1) {
    proto::BeatRequest request;
    rpc::to_proto(id, request.mutable_node());
    request.set_incarnation(incarnation);
    return nodes.beat(request, clock.now(), changes);
  }
  // Ticks as the head does, without a stall of its own.
  std::vector<NodeTable::Change> pass(base::Duration span) {
    std::vector<NodeTable::Change> out;
    for (base::Duration gone{}; gone < span; gone += kTick) {
      clock.advance(kTick);
      for (auto& change : nodes.tick(clock.now(), 0)) out.push_back(change);
    }
    return out;
  }
  double free_cpus() { return nodes.view().find(id)->capacity.free().get("cpu").value(); }
};

TEST_F(NodeTableTest, SuspectAfterOneSecondAndBackWithABeat) {
  EXPECT_TRUE(pass(900ms).empty());
  auto out = pass(100ms);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].to, NodeState::kSuspect);
  EXPECT_TRUE(beat().known());
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(nodes.view().find(id)->state, NodeState::kAlive);
}

TEST_F(NodeTableTest, DeadAfterThreeSecondsWhereRefusedElseAfterTen) {
  pass(2s);
  nodes.set_refused(id, true);
  EXPECT_TRUE(pass(900ms).empty());
  auto out = pass(100ms);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].death.kind(), proto::NODE_LOST);
  EXPECT_NE(out[0].death.text().find("refuses"), std::string::npos);
  EXPECT_FALSE(nodes.find(id));
  EXPECT_EQ(nodes.dead().size(), 1u);

  nodes.put(registering(2), clock.now());
  out = pass(9900ms);
  ASSERT_EQ(out.size(), 1u);  // suspect
  EXPECT_EQ(pass(100ms).size(), 1u);
  EXPECT_FALSE(nodes.find({2, 2}));
}

TEST_F(NodeTableTest, ADeadNodeThatComesBackStandsOnceWithItsPresentState) {
  for (uint64_t life : {1u, 1u, 2u}) {
    pass(11s);
    ASSERT_FALSE(nodes.find(id));
    ASSERT_EQ(nodes.dead().size(), 1u);
    nodes.put(registering(1, life), clock.now());
    EXPECT_TRUE(nodes.find(id));
    EXPECT_TRUE(nodes.dead().empty());
  }
  nodes.put(registering(2), clock.now());
  pass(11s);
  EXPECT_EQ(nodes.dead().size(), 2u);
}

// A head that looks later tells of a death later; one that looks all the time is never idle.
TEST_F(NodeTableTest, KnowsWhenItIsToBeLookedAt) {
  EXPECT_EQ(nodes.due(), clock.now() + 1s);
  pass(1s);
  EXPECT_TRUE(nodes.any_suspect());
  EXPECT_EQ(nodes.due(), clock.now() + 9s);
  nodes.set_refused(id, true);
  EXPECT_EQ(nodes.due(), clock.now() + 2s);
  beat();
  EXPECT_FALSE(nodes.any_suspect());
  EXPECT_EQ(nodes.due(), clock.now() + 1s);
}

TEST_F(NodeTableTest, OurOwnStallIsNobodysDeath) {
  pass(200ms);
  clock.advance(30s);  // this process was stopped
  EXPECT_TRUE(nodes.tick(clock.now(), 0).empty());
  EXPECT_TRUE(nodes.find(id));
}

TEST_F(NodeTableTest, AReplacedLifeIsToldSo) {  // 2
  EXPECT_EQ(nodes.arrival(registering(1, 2)), NodeTable::Arrival::kNewLife);
  nodes.put(registering(1, 2), clock.now());
  auto reply = beat(1);
  EXPECT_TRUE(reply.replaced());
  EXPECT_EQ(nodes.arrival(registering(1, 1)), NodeTable::Arrival::kOld);
  EXPECT_EQ(nodes.arrival(registering(1, 2)), NodeTable::Arrival::kSameLife);
}

TEST_F(NodeTableTest, ADeadNodesBeatAsksItToRegisterAgain) {  // 1
  pass(11s);
  auto reply = beat();
  EXPECT_FALSE(reply.known());
  EXPECT_FALSE(reply.replaced());
  EXPECT_EQ(nodes.arrival(registering(1)), NodeTable::Arrival::kNew);
}

TEST_F(NodeTableTest, WhatIsPromisedIsNotFreeUntilTheReportReckonsWithIt) {  // 3
  scheduler::Demand one{.resources = {{"cpu", Amount::of(1)}}};
  auto first = nodes.reserve(id, one, 1);
  auto rest = nodes.reserve(id, one, 9);
  ASSERT_TRUE(first && rest);
  EXPECT_EQ(rest->count, 3);
  EXPECT_GT(rest->request, first->request);
  EXPECT_FALSE(nodes.reserve(id, one, 1));
  EXPECT_EQ(free_cpus(), 0);

  proto::ResourceReport report;
  *report.mutable_total() = rpc::to_proto(base::Resources{{"cpu", Amount::of(4)}});
  *report.mutable_free() = rpc::to_proto(base::Resources{{"cpu", Amount::of(3)}});
  report.set_applied_request(first->request);
  nodes.report(id, report);
  EXPECT_EQ(free_cpus(), 0);
  nodes.cancel(id, rest->request);
  EXPECT_EQ(free_cpus(), 3);
}

TEST_F(NodeTableTest, DevicesOfTheReportAreWhatPlacementSees) {
  proto::ResourceReport report;
  *report.mutable_total() = rpc::to_proto(base::Resources{{"cpu", Amount::of(4)}, {"gpu", Amount::of(2)}});
  *report.mutable_free() = report.total();
  for (int i = 0; i < 2; ++i) {
    auto* device = report.add_devices();
    device->set_uuid("GPU-" + std::to_string(i));
    device->set_state(i == 0 ? "ok" : "hot");
    rpc::lease_figures_to_proto(
        {.uuid = device->uuid(), .memory_bytes = 80, .used_units = 6000, .used_memory_bytes = 20}, device);
  }
  nodes.report(id, report);
  const auto& capacity = nodes.view().find(id)->capacity;
  EXPECT_EQ(capacity.total().get("gpu"), Amount::of(1));
  EXPECT_EQ(capacity.free().get("gpu"), Amount::of(0.4));
  EXPECT_EQ(capacity.devices()[0].free_memory_bytes(), 60);
}

TEST_F(NodeTableTest, WeightsGoWithTheirActors) {
  nodes.weigh({5, 5}, id, {{"cpu", Amount::of(1)}});
  nodes.weigh({5, 5}, id, {{"cpu", Amount::of(1)}});
  EXPECT_EQ(nodes.view().find(id)->soft_load.get("cpu"), Amount::of(1));
  nodes.unweigh({5, 5});
  nodes.unweigh({5, 5});
  EXPECT_TRUE(nodes.view().find(id)->soft_load.empty());
}

}  // namespace
}  // namespace rayo::head
