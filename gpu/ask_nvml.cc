#include <cstdlib>
#include <dlfcn.h>

#include "gpu/device.h"
#include "gpu/nvml.h"
#include "runtime/base/text.h"

namespace rayo::gpu {
namespace {

using base::cat;

// NVML as loaded. Never unloaded: the probe ends right after.
class Nvml {
 public:
  // "" or why it cannot be used.
  std::string load() {
    const char* wanted = std::getenv("RAYO_NVML_PATH");
    library_ = dlopen(wanted && *wanted ? wanted : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library_) return cat("no NVIDIA driver: ", dlerror());
    auto init = find<nvml::Init>("nvmlInit_v2");
    error_string_ = find<nvml::ErrorString>("nvmlErrorString");
    if (!init || !error_string_) return "libnvidia-ml.so.1 is older than CUDA 11: update the driver";
    nvml::Result result = init();
    return result == nvml::kSuccess ? std::string() : cat("NVML does not start: ", words(result));
  }

  template <class Function>
  Function find(const char* name) const {
    return reinterpret_cast<Function>(dlsym(library_, name));
  }
  std::string words(nvml::Result result) const { return cat(error_string_(result), " (", result, ")"); }

  template <class Function, class... Arguments>
  nvml::Result call(const char* name, Arguments... arguments) const {
    auto function = find<Function>(name);
    return function ? function(arguments...) : nvml::kNotSupported;
  }

 private:
  void* library_ = nullptr;
  nvml::ErrorString error_string_ = nullptr;
};

std::vector<DeviceProcess> processes_of(const Nvml& nvml, nvml::DeviceHandle handle) {
  std::vector<nvml::ProcessInfo> found(64);
  for (int attempt = 0; attempt < 3; ++attempt) {  // more may start between two questions
    auto count = static_cast<unsigned>(found.size());
    nvml::Result result =
        nvml.call<nvml::GetProcesses>("nvmlDeviceGetComputeRunningProcesses_v3", handle, &count, found.data());
    if (result == nvml::kInsufficientSize) {
      found.resize(count + 64);
      continue;
    }
    found.resize(result == nvml::kSuccess ? count : 0);
    std::vector<DeviceProcess> processes;
    for (const nvml::ProcessInfo& one : found) {
      bool known = one.used_memory != ~0ull;
      processes.push_back({static_cast<pid_t>(one.pid), known ? static_cast<int64_t>(one.used_memory) : -1});
    }
    return processes;
  }
  return {};
}

void note_temperature(const Nvml& nvml, nvml::DeviceHandle handle, Device& device) {
  unsigned celsius = 0, limit = 0;
  if (nvml.call<nvml::GetTemperature>("nvmlDeviceGetTemperature", handle, nvml::kTemperatureOfGpu, &celsius) !=
      nvml::kSuccess)
    return;
  device.temperature_c = static_cast<int>(celsius);
  nvml::Result known =
      nvml.call<nvml::GetTemperature>("nvmlDeviceGetTemperatureThreshold", handle, nvml::kSlowdownThreshold, &limit);
  if (known != nvml::kSuccess || limit == 0 || celsius < limit) return;
  device.state = "hot";
  device.reason = cat(celsius, " C, it slows down from ", limit, " C on");
}

Device describe(const Nvml& nvml, unsigned index) {
  Device device{.index = static_cast<int>(index), .state = "ok"};
  nvml::DeviceHandle handle = nullptr;
  nvml::Result result = nvml.call<nvml::GetHandle>("nvmlDeviceGetHandleByIndex_v2", index, &handle);
  char text[nvml::kTextSize] = {};
  if (result == nvml::kSuccess) result = nvml.call<nvml::GetText>("nvmlDeviceGetUUID", handle, text, nvml::kTextSize);
  if (result == nvml::kSuccess) {
    device.uuid = text;
    result = nvml.call<nvml::GetText>("nvmlDeviceGetName", handle, text, nvml::kTextSize);
  }
  nvml::Memory memory{};
  if (result == nvml::kSuccess) {
    device.model = text;
    result = nvml.call<nvml::GetMemory>("nvmlDeviceGetMemoryInfo", handle, &memory);
  }
  if (result != nvml::kSuccess && result != nvml::kNotSupported) {
    device.state = "sick";
    device.reason = nvml.words(result);
    return device;
  }
  if (result == nvml::kSuccess) {
    device.memory_total_bytes = static_cast<int64_t>(memory.total);
    device.memory_used_bytes = static_cast<int64_t>(memory.used);
  }
  nvml.call<nvml::GetCapability>("nvmlDeviceGetCudaComputeCapability", handle, &device.compute_major,
                                 &device.compute_minor);
  unsigned milliwatts = 0;
  if (nvml.call<nvml::GetPower>("nvmlDeviceGetPowerUsage", handle, &milliwatts) == nvml::kSuccess)
    device.power_w = milliwatts / 1000.0;
  note_temperature(nvml, handle, device);
  device.processes = processes_of(nvml, handle);
  return device;
}

}  // namespace

DeviceList ask_nvml() {
  DeviceList list;
  Nvml nvml;
  list.reason = nvml.load();
  if (!list.reason.empty()) return list;
  unsigned count = 0;
  nvml::Result result = nvml.call<nvml::GetCount>("nvmlDeviceGetCount_v2", &count);
  if (result != nvml::kSuccess) {
    list.reason = cat("NVML cannot count the devices: ", nvml.words(result));
    return list;
  }
  for (unsigned index = 0; index < count; ++index) list.devices.push_back(describe(nvml, index));
  if (list.devices.empty()) list.reason = "the NVIDIA driver lists no device";
  return list;
}

}  // namespace rayo::gpu
