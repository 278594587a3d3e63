#include <cuda_runtime_api.h>

#include "gpu/cuda_memory.h"

namespace rayo::gpu {

CudaMemory cuda_memory() {
  CudaMemory memory;
  cudaError_t error = cudaGetDeviceCount(&memory.devices);
  size_t free = 0, total = 0;
  if (error == cudaSuccess && memory.devices > 0) error = cudaMemGetInfo(&free, &total);
  if (error != cudaSuccess) {
    memory.devices = 0;
    memory.error = cudaGetErrorString(error);
  } else if (memory.devices == 0) {
    memory.error = "no CUDA device";
  }
  memory.free_bytes = static_cast<int64_t>(free);
  memory.total_bytes = static_cast<int64_t>(total);
  return memory;
}

}  // namespace rayo::gpu
