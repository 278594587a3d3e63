// How much of a model a GPU takes.
#pragma once

#include <cstdint>
#include <string>

#include "examples/llm_serving/engine/model_file.h"

namespace serving {

struct Offload {
  int32_t layers = 0;  // libllama's n_gpu_layers: the model's last ones; one more than it has: the output's weights too
  std::string device;  // for people: "24 of 30 layers on NVIDIA H200 (...)", or "CPU only: " and why
};

// For what computes between the layers, and for cuBLAS.
inline constexpr uint64_t kGpuReserve = 768ull << 20;

// Whether ggml's CUDA backend is part of this program.
bool built_with_cuda();

// Layers of `weights` and `cache` bytes together that have room in `free_bytes`, of layers + 1 (the output counts as one).
int32_t layers_that_fit(uint64_t weights, uint64_t cache, int32_t layers, uint64_t free_bytes);

// By the GPUs that answer now, in no more than `leased` bytes (0: all that is free). Registers the GPU's part of the compute
// library on its first call.
Offload plan_offload(const ModelFile& file, int32_t kv_tokens, uint64_t leased = 0);

}  // namespace serving
