// What a user loses if these fail: work waits although a node has room, runs on a node it was kept from, or
// waits without a word why.
#include "scheduler/placement.h"

#include <chrono>
#include <gtest/gtest.h>

namespace rayo::scheduler {
namespace {

ViewNode node(uint64_t n, double cpus, int gpus = 0) {
  std::vector<Device> devices;
  for (int i = 0; i < gpus; ++i) devices.push_back({"gpu-" + std::to_string(n) + "-" + std::to_string(i), 80LL << 30});
  return {.id = {n, n}, .name = "host" + std::to_string(n), .capacity = Capacity({{"cpu", Amount::of(cpus)}}, devices)};
}
Demand cpu(double n) { return {.resources = {{"cpu", Amount::of(n)}}}; }
Demand gpu(double n) { return {.resources = {{"gpu", Amount::of(n)}}}; }

// Places and takes, as the head does.
std::optional<NodeId> settle(ClusterView& view, const Demand& demand, PlaceHints hints = {}) {
  auto where = place(demand, view, hints);
  if (!where) return where;
  auto* found = view.find(*where);
  found->capacity.take(found->capacity.choose(demand).value());
  found->soft_load += soft_load(demand);
  return where;
}

TEST(Placement, FourActorsOfSixTenthsOnTwoNodesOfTwoGpus) {  // Ray places more, or fewer
  ClusterView view;
  view.put(node(1, 8, 2));
  view.put(node(2, 8, 2));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(settle(view, gpu(0.6))) << i;
  EXPECT_FALSE(settle(view, gpu(0.6)));
  auto why = explain(gpu(0.6), view);
  ASSERT_EQ(why.size(), 1u);
  EXPECT_EQ(why[0].code, "insufficient_gpu");
  EXPECT_EQ(why[0].text, "0.6 GPU does not fit: free per device = 0.4, 0.4");
  EXPECT_EQ(why[0].nodes, 2);
  EXPECT_TRUE(could_ever_hold(gpu(0.6), view));
  EXPECT_FALSE(could_ever_hold(gpu(3), view));
}

TEST(Placement, FortyActorsOfEighteenHundredthsFillEightDevices) {
  ClusterView view;
  view.put(node(1, 8, 4));
  view.put(node(2, 8, 4));
  for (uint64_t i = 0; i < 40; ++i) ASSERT_TRUE(settle(view, gpu(0.18), {.seed = i})) << i;
  for (const auto& each : view.nodes()) {
    for (const auto& device : each.capacity.devices()) EXPECT_EQ(device.used_units, 5 * 1800) << device.uuid;
  }
}

TEST(Placement, PacksUntilHalfFullAndThenSpreads) {
  ClusterView view;
  view.put(node(1, 4));
  view.put(node(2, 4));
  std::map<NodeId, int> count;
  auto first = settle(view, cpu(1)).value();
  EXPECT_EQ(settle(view, cpu(1)), first);
  auto third = settle(view, cpu(1)).value();
  EXPECT_NE(third, first);
  EXPECT_EQ(settle(view, cpu(1)), third);
  for (int i = 0; i < 4; ++i) ++count[settle(view, cpu(1)).value()];
  EXPECT_EQ(count[first], 2);
  EXPECT_FALSE(settle(view, cpu(1)));
}

TEST(Placement, ThePreferredNodeIsPackedFirst) {
  ClusterView view;
  for (uint64_t n = 1; n <= 5; ++n) view.put(node(n, 4));
  PlaceHints hints{.prefer = {4, 4}};
  EXPECT_EQ(settle(view, cpu(1), hints), NodeId(4, 4));
  EXPECT_EQ(settle(view, cpu(1), hints), NodeId(4, 4));
  EXPECT_NE(settle(view, cpu(1), hints), NodeId(4, 4));
}

TEST(Placement, ActorsThatHoldNothingSpreadAllTheSame) {
  ClusterView view;
  view.put(node(1, 4));
  view.put(node(2, 4));
  view.put(node(3, 4));
  Demand actor{.to_place = {{"cpu", Amount::of(1)}}};
  std::map<NodeId, int> count;
  for (int i = 0; i < 30; ++i) ++count[settle(view, actor).value()];
  for (const auto& [id, n] : count) EXPECT_EQ(n, 10);
  // Free to be placed is asked for, too.
  for (int i = 0; i < 3; ++i) settle(view, cpu(4));
  EXPECT_FALSE(settle(view, actor));
}

TEST(Placement, LabelsBindAndSaySo) {
  ClusterView view;
  auto fast = node(1, 4);
  fast.labels = {{"disk", "nvme"}};
  view.put(fast);
  view.put(node(2, 4));
  auto wants = [](LabelRule rule) {
    auto ask = cpu(1);
    ask.labels = {std::move(rule)};
    return ask;
  };
  EXPECT_EQ(place(wants({"disk", {"nvme", "ssd"}}), view, {}), NodeId(1, 1));
  EXPECT_EQ(place(wants({"disk", {"nvme"}, true}), view, {}), NodeId(2, 2));
  EXPECT_EQ(place(wants({"disk", {}}), view, {}), NodeId(1, 1));
  auto tape = wants({"disk", {"tape"}});
  EXPECT_FALSE(place(tape, view, {}));
  EXPECT_FALSE(could_ever_hold(tape, view));
  auto why = explain(tape, view);
  ASSERT_EQ(why.size(), 1u);
  EXPECT_EQ(why[0].code, "label_mismatch");
  EXPECT_EQ(why[0].nodes, 2);
  EXPECT_EQ(explain_each(tape, view)[0].text, "asks for disk = tape, the node has disk = nvme");
}

TEST(Placement, SpreadTakesTheEmptiestWhateverIsPreferred) {
  ClusterView view;
  view.put(node(1, 8));
  view.put(node(2, 8));
  view.put(node(3, 8));
  auto spread = cpu(1);
  spread.spread = true;
  std::map<NodeId, int> count;
  for (int i = 0; i < 9; ++i) ++count[settle(view, spread, {.prefer = {2, 2}}).value()];
  EXPECT_EQ(count, (std::map<NodeId, int>{{{1, 1}, 3}, {{2, 2}, 3}, {{3, 3}, 3}}));
}

TEST(Placement, AffinityHardAndSoft) {
  ClusterView view;
  view.put(node(1, 4));
  view.put(node(2, 4));
  auto bound = cpu(4);
  bound.node = {2, 2};
  EXPECT_EQ(settle(view, bound), NodeId(2, 2));
  EXPECT_FALSE(settle(view, bound));
  auto why = explain(bound, view);
  ASSERT_EQ(why.size(), 1u);
  EXPECT_EQ(why[0].text, "4 CPU does not fit: 0 of 4 free");
  bound.node_soft = true;
  EXPECT_EQ(settle(view, bound), NodeId(1, 1));
  auto lost = cpu(1);
  lost.node = {9, 9};
  EXPECT_FALSE(settle(view, lost));
  EXPECT_FALSE(could_ever_hold(lost, view));
  EXPECT_EQ(explain(lost, view)[0].code, "node_unavailable");
}

TEST(Placement, OnlyLivingNodesAreUsed) {
  ClusterView view;
  EXPECT_EQ(explain(cpu(1), view)[0].code, "no_nodes");
  auto suspect = node(1, 4);
  suspect.state = NodeState::kSuspect;
  view.put(suspect);
  EXPECT_FALSE(place(cpu(1), view, {}));
  EXPECT_TRUE(could_ever_hold(cpu(1), view));
  EXPECT_EQ(explain(cpu(1), view)[0].text, "the node host1 is suspect");
}

TEST(Placement, TheSameSeedGivesTheSameNode) {
  ClusterView view;
  for (uint64_t n = 1; n <= 500; ++n) view.put(node(n, 4));
  for (uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(place(cpu(1), view, {.seed = seed}), place(cpu(1), view, {.seed = seed}));
  }
}

TEST(Placement, OneFreeNodeAmongTenThousandIsFound) {
  ClusterView view;
  for (uint64_t n = 1; n <= 10'000; ++n) view.put(node(n, n == 7777 ? 8 : 4));
  EXPECT_EQ(place(cpu(8), view, {}), NodeId(7777, 7777));
  EXPECT_FALSE(place(cpu(9), view, {}));
}

// What waits is grouped by it: of two shapes with one key the second waits for as long as the first fits nowhere.
TEST(Placement, DifferentDemandsHaveDifferentKeys) {
  const std::vector<Demand> demands = {
      {.labels = {{"z", {"01x"}}}},
      {.labels = {{"z0", {"1x"}}}},
      {.labels = {{"z", {"1x"}}}},
      {.labels = {{"z", {"1x"}, true}}},
      {.labels = {{"z", {"a|b"}}}},
      {.labels = {{"z", {"a", "b"}}}},
      {.labels = {{"z", {}}, {"a", {}}}},
      {.labels = {{"z;a", {}}}},
      {.resources = {{"a", Amount::of(1)}, {"b", Amount::of(1)}}},
      {.resources = {{"a=10000,b", Amount::of(1)}}},
      {.resources = {{"a", Amount::of(1)}}, .to_place = {{"b", Amount::of(1)}}},
  };
  for (size_t i = 0; i < demands.size(); ++i)
    for (size_t j = 0; j < demands.size(); ++j)
      EXPECT_EQ(shape_key(demands[i]) == shape_key(demands[j]), i == j) << i << " and " << j;
}

}  // namespace
}  // namespace rayo::scheduler
