// Device memory as the CUDA runtime tells it; built where nvcc is found (RAYO_HAVE_CUDA).
#pragma once

#include <cstdint>
#include <string>

namespace rayo::gpu {

struct CudaMemory {
  int devices = 0;  // 0: `error` says why
  std::string error;
  int64_t total_bytes = 0;  // of device 0
  int64_t free_bytes = 0;
};

// Creates a CUDA context in this process: call it only where the process is to use the GPU anyway.
CudaMemory cuda_memory();

}  // namespace rayo::gpu
