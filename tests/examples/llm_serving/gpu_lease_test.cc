// What a user loses if these fail: an engine waits for ever for a GPU that cannot be had, leaves one idle that could, or nobody can see
// why it computes on the CPU.
#include "examples/llm_serving/gpu_lease.h"

#include <gtest/gtest.h>

#include "examples/llm_serving/engine/offload.h"

namespace serving {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

rayo::NodeRecord node_with(std::vector<int64_t> free_gib) {
  rayo::NodeRecord node;
  for (const int64_t free : free_gib)
    node.devices.push_back(
        {.model = "H200", .state = "ok", .memory_total_bytes = 140 * kGiB, .memory_free_bytes = free * kGiB});
  return node;
}

ModelFile model() {
  ModelFile file;
  file.size_bytes = 30 * kGiB;
  file.layers = 30;
  file.kv_bytes_per_token = 1 << 20;  // a cache of 1,024 tokens has 1 GiB
  return file;
}

TEST(GpuLease, IsWhatTheModelNeedsOrWhatTheFreestDeviceHas) {
  const uint64_t all = 31 * kGiB + kGpuReserve;
  const GpuLease whole = plan_gpu_lease(node_with({10, 100, 50}), model(), 1024, true);
  EXPECT_EQ(whole.cpu_only, "");
  EXPECT_GE(whole.bytes, all);
  EXPECT_LT(whole.bytes, all + 1024);
  EXPECT_EQ(layers_that_fit(30 * kGiB, kGiB, 30, whole.bytes), 31) << "the lease holds every layer";
  EXPECT_EQ(plan_gpu_lease(node_with({10, 16}), model(), 1024, true).bytes, static_cast<uint64_t>(16 * kGiB));
}

TEST(GpuLease, WithoutOneItSaysWhy) {
  EXPECT_EQ(plan_gpu_lease(node_with({}), model(), 1024, false).cpu_only, "its node has no GPU");
  EXPECT_EQ(plan_gpu_lease(node_with({100}), model(), 1024, false).cpu_only,
            "this program is built without CUDA (RAYO_LLM_CUDA)");
  const GpuLease full = plan_gpu_lease(node_with({1}), model(), 1024, true);
  EXPECT_EQ(full.bytes, 0u);
  EXPECT_EQ(full.cpu_only, "of gpu_memory a layer of the model needs 1.8 GiB, and 1.0 GiB is free on H200");
  rayo::NodeRecord sick = node_with({100});
  sick.devices[0].state = "sick";
  EXPECT_EQ(plan_gpu_lease(sick, model(), 1024, true).cpu_only, "no GPU of its node is in use (H200: sick)");
}

}  // namespace
}  // namespace serving
