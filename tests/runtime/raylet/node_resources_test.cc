// If this fails: a node in a container offers processors and memory that it does not have.
#include "runtime/raylet/node_resources.h"

#include <gtest/gtest.h>
#include <limits>

namespace rayo::raylet {
namespace {

TEST(NodeResources, QuotasOfBothCgroupVersions) {
  EXPECT_EQ(quota_of("150000 100000", ""), 1.5);
  EXPECT_EQ(quota_of("50000", "100000"), 0.5);
  EXPECT_EQ(quota_of("max 100000", ""), std::numeric_limits<double>::max());
  EXPECT_EQ(quota_of("-1", "100000"), std::numeric_limits<double>::max());
  EXPECT_EQ(quota_of("", ""), std::numeric_limits<double>::max());
}

TEST(NodeResources, LimitsThatAreNone) {
  EXPECT_EQ(limit_of("1073741824"), 1073741824);
  EXPECT_EQ(limit_of("max"), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(limit_of(""), std::numeric_limits<int64_t>::max());
}

TEST(NodeResources, SettingsOverrideWhatIsMeasured) {
  base::RayletSettings settings;
  settings.num_cpus = 3.5;
  settings.num_gpus = 0;
  settings.memory_bytes = 1000;
  settings.resources = {{"tpu", 2}};
  auto offer = measure_node(settings);
  ASSERT_TRUE(offer.ok());
  EXPECT_EQ(offer->total.get("cpu").value(), 3.5);
  EXPECT_EQ(offer->total.get("memory").value(), 1000);
  EXPECT_EQ(offer->total.get("tpu").value(), 2);
  EXPECT_TRUE(offer->devices.empty());
  settings.num_cpus = -1;
  EXPECT_GT(measure_node(settings)->total.get("cpu").value(), 0);
}

}  // namespace
}  // namespace rayo::raylet
