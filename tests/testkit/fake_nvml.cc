// A libnvidia-ml.so.1 for tests ($RAYO_NVML_PATH): two H200 by default. RAYO_FAKE_NVML says otherwise: "none"
// (no device), "hang" (init never returns), "crash", "refuse" (init fails), "lost" (the second device has
// fallen off the bus), "hot" (the second device is at its slowdown temperature), a number of devices, or "@FILE": what
// the first word of that file says now.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <unistd.h>

#include "gpu/nvml.h"

namespace nvml = rayo::gpu::nvml;

namespace {

constexpr nvml::Result kDriverNotLoaded = 9;
constexpr nvml::Result kGpuIsLost = 15;
constexpr unsigned long long kMemory = 141ull << 30;

std::string_view mode() {
  static const std::string said = [] {
    const char* value = std::getenv("RAYO_FAKE_NVML");
    std::string word = value ? value : "2";
    if (word[0] == '@') std::ifstream(word.substr(1)) >> word;
    return word;
  }();
  return said;
}

unsigned index_of(nvml::DeviceHandle handle) { return static_cast<unsigned>(reinterpret_cast<size_t>(handle)) - 1; }

}  // namespace

#define FAKE extern "C" __attribute__((visibility("default")))

FAKE nvml::Result nvmlInit_v2() {
  if (mode() == "hang") {
    for (;;) pause();
  }
  if (mode() == "crash") abort();
  return mode() == "refuse" ? kDriverNotLoaded : nvml::kSuccess;
}
FAKE const char* nvmlErrorString(nvml::Result result) {
  if (result == kDriverNotLoaded) return "Driver Not Loaded";
  return result == kGpuIsLost ? "GPU is lost" : "Unknown Error";
}
FAKE nvml::Result nvmlDeviceGetCount_v2(unsigned* count) {
  int number = std::atoi(mode().data());
  *count = mode() == "none" ? 0 : number > 0 ? static_cast<unsigned>(number) : 2;
  return nvml::kSuccess;
}
FAKE nvml::Result nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml::DeviceHandle* handle) {
  if (mode() == "lost" && index == 1) return kGpuIsLost;
  *handle = reinterpret_cast<nvml::DeviceHandle>(static_cast<size_t>(index + 1));
  return nvml::kSuccess;
}
FAKE nvml::Result nvmlDeviceGetUUID(nvml::DeviceHandle handle, char* text, unsigned size) {
  std::snprintf(text, size, "GPU-00000000-0000-0000-0000-%012u", index_of(handle));
  return nvml::kSuccess;
}
FAKE nvml::Result nvmlDeviceGetName(nvml::DeviceHandle, char* text, unsigned size) {
  std::snprintf(text, size, "NVIDIA H200");
  return nvml::kSuccess;
}
FAKE nvml::Result nvmlDeviceGetMemoryInfo(nvml::DeviceHandle handle, nvml::Memory* memory) {
  memory->total = kMemory;
  memory->used = (index_of(handle) + 1) * (1ull << 30);
  memory->free = memory->total - memory->used;
  return nvml::kSuccess;
}
FAKE nvml::Result nvmlDeviceGetCudaComputeCapability(nvml::DeviceHandle, int* major, int* minor) {
  *major = 9;
  *minor = 0;
  return nvml::kSuccess;
}
FAKE nvml::Result nvmlDeviceGetTemperature(nvml::DeviceHandle handle, unsigned, unsigned* celsius) {
  *celsius = mode() == "hot" && index_of(handle) == 1 ? 93 : 41;
  return nvml::kSuccess;
}
FAKE nvml::Result nvmlDeviceGetTemperatureThreshold(nvml::DeviceHandle, unsigned, unsigned* celsius) {
  *celsius = 90;
  return nvml::kSuccess;
}
FAKE nvml::Result nvmlDeviceGetPowerUsage(nvml::DeviceHandle, unsigned* milliwatts) {
  *milliwatts = 75'500;
  return nvml::kSuccess;
}
FAKE nvml::Result nvmlDeviceGetComputeRunningProcesses_v3(nvml::DeviceHandle handle, unsigned* count,
                                                          nvml::ProcessInfo* processes) {
  unsigned here = index_of(handle) == 0 ? 70 : 0;  // more than a first guess holds
  if (*count < here) {
    *count = here;
    return nvml::kInsufficientSize;
  }
  *count = here;
  for (unsigned i = 0; i < here; ++i) processes[i] = {1000 + i, i == 0 ? ~0ull : 1ull << 20, 0, 0};
  return nvml::kSuccess;
}
