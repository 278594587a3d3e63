// What a user loses if these fail: CUDA code no longer compiles or links where nvcc is found.
#include <gtest/gtest.h>

#ifdef RAYO_TEST_CUDA
#include "gpu/cuda_memory.h"
#endif

namespace rayo::gpu {
namespace {

TEST(CudaRuntime, TellsTheMemoryOfTheFirstDevice) {
#ifdef RAYO_TEST_CUDA
  CudaMemory memory = cuda_memory();
  if (memory.devices == 0) GTEST_SKIP() << "no GPU here: " << memory.error;
  EXPECT_GT(memory.total_bytes, 0);
  EXPECT_LE(memory.free_bytes, memory.total_bytes);
#else
  GTEST_SKIP() << "built without CUDA: no nvcc was found (RAYO_CUDA)";
#endif
}

}  // namespace
}  // namespace rayo::gpu
