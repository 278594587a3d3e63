// What a user loses if these fail: memory that is asked for is not leased, and more actors start than a node can hold.
#include "runtime/worker/demand.h"

#include <gtest/gtest.h>
#include <limits>

#include <rayo/error.h>

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

template <class Options>
std::string refusal(Resources ask) {
  try {
    check_options(Options{.resources = std::move(ask)});
  } catch (const Invalid& error) {
    return error.text();
  }
  return {};
}

TEST(Demand, WhatIsNoAmountIsRefused) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const std::string limits = ": an amount is a number from 0 to 1000000000";
  EXPECT_EQ(refusal<TaskOptions>({.cpus = kNan}), "cannot ask for nan cpus" + limits);
  EXPECT_EQ(refusal<TaskOptions>({.cpus = 1e308}), "cannot ask for 1e+308 cpus" + limits);
  EXPECT_EQ(refusal<ActorOptions>({.gpus = -1}), "cannot ask for -1 gpus" + limits);
  EXPECT_EQ(refusal<ActorOptions>({.custom = {{"tpu", kNan}}}), "cannot ask for nan tpu" + limits);
  EXPECT_EQ(refusal<ActorOptions>({.memory = int64_t{1} << 62}),
            "cannot ask for 4611686018427387904 bytes of memory: an amount is a number from 0 to 922337203685477");
  EXPECT_EQ(refusal<TaskOptions>({.custom = {{"tp\xff", 1}}}), "the name of a resource, 'tp\xff', is not UTF-8");
  EXPECT_EQ(
      refusal<TaskOptions>({.cpus = 0.5, .gpus = 2, .gpu_memory = kBytes, .memory = kBytes, .custom = {{"a", 1}}}), "");
}

}  // namespace
}  // namespace rayo::worker
