// What a user loses if these fail: memory that is asked for is not leased, and more actors start than a node can hold.
#include "runtime/worker/demand.h"

#include <gtest/gtest.h>

#include "runtime/base/resources.h"

namespace rayo::worker {
namespace {

constexpr int64_t kBytes = int64_t{3} << 30;

TEST(Demand, MemoryIsInTheUnitsInWhichNodesOfferIt) {
  ActorOptions options;
  options.resources.memory = kBytes;
  EXPECT_EQ(demand_of(options).resources().units().at("memory"), kBytes * base::Amount::kScale);
}

TEST(Demand, ANodesMemoryIsToldInBytes) {
  proto::NodeInfo info;
  (*info.mutable_total()->mutable_units())["memory"] = kBytes * base::Amount::kScale;
  (*info.mutable_free()->mutable_units())["cpu"] = base::Amount::of(1.5).units;
  const NodeRecord record = node_record(info);
  EXPECT_EQ(record.total.at("memory"), static_cast<double>(kBytes));
  EXPECT_EQ(record.free.at("cpu"), 1.5);
}

TEST(Demand, ADevicesFreeMemoryIsWhatMayBeLeasedOfIt) {
  proto::NodeInfo info;
  proto::Device& device = *info.add_devices();
  device.set_memory_total_bytes(8 * kBytes);
  device.set_free_memory_bytes(5 * kBytes);
  EXPECT_EQ(node_record(info).devices.at(0).memory_free_bytes, 5 * kBytes);
}

}  // namespace
}  // namespace rayo::worker
