// The few functions of NVML that we call, declared by ourselves: NVML's header belongs to a toolkit that need
// not be there. Names, numbers and layouts are those of NVML's stable interface (nvml.h of CUDA 11 and
// later).
#pragma once

namespace rayo::gpu::nvml {

using Result = int;
constexpr Result kSuccess = 0;
constexpr Result kNotSupported = 3;
constexpr Result kInsufficientSize = 7;

using DeviceHandle = struct OpaqueDevice*;

struct Memory {
  unsigned long long total, free, used;  // bytes
};
struct ProcessInfo {  // of nvmlDeviceGetComputeRunningProcesses_v3
  unsigned pid;
  unsigned long long used_memory;  // bytes; ~0 where unknown
  unsigned gpu_instance, compute_instance;
};

constexpr unsigned kTemperatureOfGpu = 0;
constexpr unsigned kSlowdownThreshold = 1;
constexpr unsigned kTextSize = 96;  // NVML_DEVICE_UUID_V2_BUFFER_SIZE and NVML_DEVICE_NAME_V2_BUFFER_SIZE

using Init = Result (*)();
using ErrorString = const char* (*)(Result);
using GetCount = Result (*)(unsigned* count);
using GetHandle = Result (*)(unsigned index, DeviceHandle*);
using GetText = Result (*)(DeviceHandle, char* text, unsigned size);  // name, UUID
using GetMemory = Result (*)(DeviceHandle, Memory*);
using GetCapability = Result (*)(DeviceHandle, int* major, int* minor);
using GetTemperature = Result (*)(DeviceHandle, unsigned sensor_or_threshold, unsigned* celsius);
using GetPower = Result (*)(DeviceHandle, unsigned* milliwatts);
using GetProcesses = Result (*)(DeviceHandle, unsigned* count, ProcessInfo*);

}  // namespace rayo::gpu::nvml
