#include "examples/llm_serving/engine/offload.h"

#include <algorithm>

#ifdef RAYO_LLM_CUDA
#include <ggml-backend.h>
#include <ggml-cuda.h>

extern "C" void ggml_backend_register(ggml_backend_reg_t reg);  // ggml's own, not in its installed headers
#endif

namespace serving {

int32_t layers_that_fit(uint64_t weights, uint64_t cache, int32_t layers, uint64_t free_bytes) {
  if (layers <= 0 || free_bytes <= kGpuReserve) return 0;
  const uint64_t each = (weights + cache) / static_cast<uint64_t>(layers + 1) + 1;
  return static_cast<int32_t>(std::min<uint64_t>((free_bytes - kGpuReserve) / each, static_cast<uint64_t>(layers) + 1));
}

#ifdef RAYO_LLM_CUDA

bool built_with_cuda() { return true; }

Offload plan_offload(const ModelFile& file, int32_t kv_tokens, uint64_t leased) {
  static ggml_backend_reg_t cuda = [] {
    ggml_backend_reg_t made = ggml_backend_cuda_reg();
    if (made != nullptr) ggml_backend_register(made);
    return made;
  }();
  const size_t count = cuda == nullptr ? 0 : ggml_backend_reg_dev_count(cuda);
  if (count == 0) return {0, "CPU only: no CUDA device answers here"};
  uint64_t free_bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    size_t free = 0, total = 0;
    ggml_backend_dev_memory(ggml_backend_reg_dev_get(cuda, i), &free, &total);
    free_bytes += free;
  }
  if (leased > 0) free_bytes = std::min(free_bytes, leased);
  const std::string name = ggml_backend_dev_description(ggml_backend_reg_dev_get(cuda, 0));
  const std::string gpus = name + (count > 1 ? " and " + std::to_string(count - 1) + " more" : "");
  const std::string memory = " (" + bytes_text(free_bytes) + " to use)";
  const uint64_t cache = file.kv_bytes_per_token * static_cast<uint64_t>(kv_tokens);
  const int32_t layers = layers_that_fit(file.size_bytes, cache, file.layers, free_bytes);
  if (layers == 0) return {0, "CPU only: no layer of the model fits " + gpus + memory};
  return {layers, std::to_string(std::min(layers, file.layers)) + " of " + std::to_string(file.layers) + " layers on " +
                      gpus + memory};
}

#else

bool built_with_cuda() { return false; }

Offload plan_offload(const ModelFile& /*file*/, int32_t /*kv_tokens*/, uint64_t /*leased*/) {
  return {0, "CPU only: this program is built without CUDA (RAYO_LLM_CUDA)"};
}

#endif

}  // namespace serving
