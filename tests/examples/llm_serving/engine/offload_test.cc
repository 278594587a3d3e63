// If this fails, an engine asks its GPU for more than it has and does not start, or leaves it idle.
#include "examples/llm_serving/engine/offload.h"

#include <gtest/gtest.h>

namespace serving {
namespace {

constexpr uint64_t kGiB = 1ull << 30;

TEST(Offload, AsManyLayersAsThereIsRoomForWithTheirPartOfTheCache) {
  EXPECT_EQ(layers_that_fit(30 * kGiB, kGiB, 30, 80 * kGiB), 31) << "all, and the output's weights";
  EXPECT_EQ(layers_that_fit(30 * kGiB, kGiB, 30, 16 * kGiB), 15);
  EXPECT_EQ(layers_that_fit(30 * kGiB, 31 * kGiB, 30, 16 * kGiB), 7) << "the cache counts";
  EXPECT_EQ(layers_that_fit(30 * kGiB, kGiB, 30, kGiB), 0);
  EXPECT_EQ(layers_that_fit(30 * kGiB, kGiB, 30, 0), 0);
  EXPECT_EQ(layers_that_fit(kGiB, kGiB, 0, 80 * kGiB), 0) << "a file that does not tell its layers";
}

TEST(Offload, WithoutAGpuItSaysWhy) {
  const Offload offload = plan_offload({}, 1024);
  if (offload.layers > 0) GTEST_SKIP() << "this machine has a GPU: " << offload.device;
  EXPECT_TRUE(offload.device.starts_with("CPU only: ")) << offload.device;
}

}  // namespace
}  // namespace serving
