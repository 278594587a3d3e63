// What an engine leases of a node's GPU.
#pragma once

#include <cstdint>
#include <string>

#include <rayo/options.h>

#include "examples/llm_serving/engine/model_file.h"

namespace serving {

struct GpuLease {
  uint64_t bytes = 0;    // of gpu_memory, on one device
  std::string cpu_only;  // where it is 0: why, with figures
};

// Room for weights, cache and what computes between them, or for as many layers as the node's freest GPU holds.
GpuLease plan_gpu_lease(const rayo::NodeRecord& node, const ModelFile& file, int32_t kv_tokens, bool built_with_cuda);

}  // namespace serving
