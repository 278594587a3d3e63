// What a user loses if these fail: two actors share a GPU that only one may have, or a node slowly runs out
// of resources that nobody uses.
#include "scheduler/node_ledger.h"

#include <gtest/gtest.h>
#include <random>

#include "runtime/base/ids.h"

namespace rayo::scheduler {
namespace {

constexpr int64_t kGiB = 1LL << 30;

LeaseId lease(uint64_t n) { return {1, n}; }
Demand gpus(double n, int64_t memory = 0) {
  return {.resources = {{"gpu", Amount::of(n)}}, .gpu_memory_bytes = memory};
}

NodeLedger two_gpus() {
  return NodeLedger(Capacity({{"cpu", Amount::of(8)}}, {{"GPU-a", 80 * kGiB}, {"GPU-b", 80 * kGiB}}));
}

// Invariant 1: used + free = total, name by name and device by device; nothing below zero.
void check_sums(const NodeLedger& ledger) {
  const auto& capacity = ledger.capacity();
  Resources sum = ledger.used();
  sum += capacity.free();
  ASSERT_EQ(sum, capacity.total());
  for (const auto& [name, amount] : capacity.free().amounts()) ASSERT_GE(amount.units, 0) << name;
  for (const auto& device : capacity.devices()) {
    ASSERT_GE(device.free_units(), 0) << device.uuid;
    ASSERT_GE(device.used_units, 0) << device.uuid;
    ASSERT_LE(device.used_memory_bytes, device.memory_bytes) << device.uuid;
  }
}

TEST(NodeLedger, SixTenthsFitOnceOnEachDevice) {
  auto ledger = two_gpus();
  const auto* first = ledger.acquire(lease(1), gpus(0.6));
  const auto* second = ledger.acquire(lease(2), gpus(0.6));
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->devices[0].uuid, second->devices[0].uuid);
  EXPECT_EQ(ledger.acquire(lease(3), gpus(0.6)), nullptr);
  auto why = ledger.capacity().why_not(gpus(0.6));
  ASSERT_EQ(why.size(), 1u);
  EXPECT_EQ(why[0].code, "insufficient_gpu");
  EXPECT_EQ(why[0].text, "0.6 GPU does not fit: free per device = 0.4, 0.4");
  EXPECT_EQ(ledger.capacity().free().get("gpu"), Amount::of(0.8));
}

TEST(NodeLedger, FractionsFillOneDeviceBeforeTheNext) {
  auto ledger = two_gpus();
  ledger.acquire(lease(1), gpus(0.5));
  auto* half = ledger.acquire(lease(2), gpus(0.3));
  EXPECT_EQ(half->devices[0].uuid, "GPU-a");
  ASSERT_TRUE(ledger.acquire(lease(3), gpus(1)));  // so a whole one is still there
  EXPECT_EQ(ledger.find(lease(3))->devices[0], (DeviceShare{"GPU-b", 10'000, 80 * kGiB}));
}

TEST(NodeLedger, WholeDevicesMustBeUntouched) {
  auto ledger = two_gpus();
  ledger.acquire(lease(1), gpus(0, 8 * kGiB));  // memory alone
  EXPECT_EQ(ledger.acquire(lease(2), gpus(2)), nullptr);
  EXPECT_TRUE(ledger.acquire(lease(3), gpus(1)));
  ledger.release(lease(1));
  ledger.release(lease(3));
  EXPECT_TRUE(ledger.acquire(lease(2), gpus(2)));
}

TEST(NodeLedger, GpuMemoryIsCountedPerDevice) {
  auto ledger = two_gpus();
  ASSERT_TRUE(ledger.acquire(lease(1), gpus(0.1, 50 * kGiB)));
  auto* other = ledger.acquire(lease(2), gpus(0.1, 50 * kGiB));
  ASSERT_TRUE(other);
  EXPECT_EQ(other->devices[0].uuid, "GPU-b");
  EXPECT_EQ(ledger.acquire(lease(3), gpus(0.1, 50 * kGiB)), nullptr);
  EXPECT_EQ(ledger.capacity().why_not(gpus(0.1, 50 * kGiB))[0].text,
            "0.1 GPU with 50.0 GiB does not fit: free per device = 0.9 (30.0 GiB), 0.9 (30.0 GiB)");
}

TEST(NodeLedger, FiguresAreTotalsWhereItNeverFits) {
  auto ledger = two_gpus();
  EXPECT_FALSE(ledger.capacity().could_ever(gpus(4)));
  EXPECT_EQ(ledger.capacity().why_not(gpus(4))[0].text, "4 GPU do not fit: the node has in all, per device = 1, 1");
  Demand cpus{.resources = {{"cpu", Amount::of(64)}}};
  EXPECT_EQ(ledger.capacity().why_not(cpus)[0].text, "64 CPU does not fit: the node has 8 in all");
}

TEST(NodeLedger, ADeviceThatIsBusyIsToldAsBusyWhateverElseIsAskedFor) {
  auto ledger = two_gpus();
  ASSERT_TRUE(ledger.acquire(lease(1), gpus(2)));
  Demand much = gpus(1);
  much.resources.set("cpu", Amount::of(1000));
  auto why = ledger.capacity().why_not(much);
  ASSERT_EQ(why.size(), 2u);
  EXPECT_EQ(why[0].text, "1000 CPU does not fit: the node has 8 in all");
  EXPECT_EQ(why[1].text, "1 GPU does not fit: free per device = 0, 0");
}

TEST(NodeLedger, EveryActCanBeRepeated) {
  auto ledger = two_gpus();
  const auto* first = ledger.acquire(lease(1), gpus(0.5));
  EXPECT_EQ(ledger.acquire(lease(1), gpus(0.5)), first);
  EXPECT_EQ(ledger.capacity().free().get("gpu"), Amount::of(1.5));
  EXPECT_TRUE(ledger.release(lease(1)));
  EXPECT_FALSE(ledger.release(lease(1)));
  EXPECT_EQ(ledger.capacity().free().get("gpu"), Amount::of(2));
}

TEST(NodeLedger, AWaitingHolderLendsItsCpus) {
  NodeLedger ledger(Capacity({{"cpu", Amount::of(2)}}, {}));
  Demand two{.resources = {{"cpu", Amount::of(2)}}};
  ledger.acquire(lease(1), two);
  EXPECT_EQ(ledger.acquire(lease(2), two), nullptr);
  ledger.lend_cpu(lease(1));
  ASSERT_TRUE(ledger.acquire(lease(2), two));
  EXPECT_FALSE(ledger.take_back_cpu(lease(1)));
  ledger.release(lease(2));
  EXPECT_TRUE(ledger.take_back_cpu(lease(1)));
  EXPECT_FALSE(ledger.lent(lease(1)));
  ledger.lend_cpu(lease(1));
  ledger.release(lease(1));  // dies while it waits
  EXPECT_EQ(ledger.capacity().free(), ledger.capacity().total());
}

TEST(NodeLedger, ASickDeviceLeavesTheOfferAndComesBack) {
  auto ledger = two_gpus();
  ledger.acquire(lease(1), gpus(0.5));
  ledger.update_devices({{"GPU-a", 80 * kGiB, false}, {"GPU-b", 80 * kGiB}});
  EXPECT_EQ(ledger.capacity().total().get("gpu"), Amount::of(1));
  EXPECT_EQ(ledger.acquire(lease(2), gpus(0.5))->devices[0].uuid, "GPU-b");
  ledger.update_devices({{"GPU-a", 80 * kGiB}, {"GPU-b", 80 * kGiB}});
  EXPECT_EQ(ledger.capacity().free().get("gpu"), Amount::of(1));
  ledger.update_devices({{"GPU-b", 80 * kGiB}});  // fell off the bus
  EXPECT_EQ(ledger.capacity().devices().size(), 2u);
  ledger.release(lease(1));
  EXPECT_EQ(ledger.capacity().devices().size(), 1u);
}

TEST(NodeLedger, SumsHoldAfterTenThousandRandomSteps) {
  uint64_t seed = base::random_bits();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  NodeLedger ledger(Capacity({{"cpu", Amount::of(16)}, {"tpu", Amount::of(3)}},
                             {{"a", 80 * kGiB}, {"b", 24 * kGiB}, {"c", 24 * kGiB}}));
  auto pick = [&](uint64_t n) { return random() % n; };
  for (int step = 0; step < 10'000; ++step) {
    auto id = lease(pick(40));
    switch (pick(4)) {
      case 0:
      case 1: {
        Demand ask{.resources = {{"cpu", Amount{static_cast<int64_t>(pick(20'000))}}}};
        if (pick(2))
          ask.resources.set("gpu", pick(3) ? Amount{static_cast<int64_t>(pick(10'000))} : Amount::of(1 + pick(2)));
        if (pick(3) == 0) ask.gpu_memory_bytes = static_cast<int64_t>(pick(30)) * kGiB;
        if (pick(4) == 0) ask.resources.set("tpu", Amount::of(0.7));
        bool fits = ledger.capacity().fits(ask) || ledger.find(id);
        ASSERT_EQ(ledger.acquire(id, ask) != nullptr, fits);
        if (!fits) {
          ASSERT_FALSE(ledger.capacity().why_not(ask).empty());
        }
        break;
      }
      case 2:
        ledger.release(id);
        break;
      case 3:
        pick(2) ? ledger.lend_cpu(id) : static_cast<void>(ledger.take_back_cpu(id));
        break;
    }
    check_sums(ledger);
    if (HasFatalFailure()) FAIL() << "step " << step;
  }
  for (uint64_t i = 0; i < 40; ++i) ledger.release(lease(i));
  EXPECT_EQ(ledger.capacity().free(), ledger.capacity().total());
}

TEST(Demand, OnlyWholeDevicesAboveOne) {
  EXPECT_TRUE(check(gpus(0.3)).ok());
  EXPECT_TRUE(check(gpus(2)).ok());
  EXPECT_FALSE(check(gpus(1.5)).ok());
  EXPECT_FALSE(check({.resources = {{"cpu", Amount::of(-1)}}}).ok());
}

}  // namespace
}  // namespace rayo::scheduler
