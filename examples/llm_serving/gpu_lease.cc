#include "examples/llm_serving/gpu_lease.h"

#include <algorithm>

#include "examples/llm_serving/engine/offload.h"

namespace serving {

GpuLease plan_gpu_lease(const rayo::NodeRecord& node, const ModelFile& file, int32_t kv_tokens, bool built_with_cuda) {
  if (node.devices.empty()) return {0, "its node has no GPU"};
  if (!built_with_cuda) return {0, "this program is built without CUDA (RAYO_LLM_CUDA)"};
  const rayo::DeviceRecord* best = nullptr;
  for (const rayo::DeviceRecord& device : node.devices) {
    if (device.state != "ok") continue;
    if (best == nullptr || device.memory_free_bytes > best->memory_free_bytes) best = &device;
  }
  if (best == nullptr)
    return {0, "no GPU of its node is in use (" + node.devices.front().model + ": " + node.devices.front().state + ")"};
  const auto free_bytes = static_cast<uint64_t>(std::max<int64_t>(0, best->memory_free_bytes));
  const uint64_t cache = file.kv_bytes_per_token * static_cast<uint64_t>(std::max(kv_tokens, 0));
  if (layers_that_fit(file.size_bytes, cache, file.layers, free_bytes) > 0)
    return {std::min(free_bytes, file.size_bytes + cache + kGpuReserve + static_cast<uint64_t>(file.layers) + 1), {}};
  const uint64_t layer = (file.size_bytes + cache) / static_cast<uint64_t>(std::max(file.layers, 0) + 1) + 1;
  return {0, "of gpu_memory a layer of the model needs " + bytes_text(layer + kGpuReserve) + ", and " +
                 bytes_text(free_bytes) + " is free on " + best->model};
}

}  // namespace serving
