// The GPUs of this machine, as NVML tells them. NVML is loaded at run time by a program of its own,
// `rayo-gpu-probe`: a driver that hangs or crashes takes that program with it, never the raylet.
//
//   DeviceList found = list_devices(deadline_after(clock.now(), 5s)); // blocks: call it from a thread of its own
//   if (found.devices.empty()) log().info("no GPU: {}", found.reason);
//
// Memory in bytes, power in watts; -1 where the device does not tell. Any thread; no errors but `reason`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace rayo::gpu {

struct DeviceProcess {
  pid_t pid = 0;
  int64_t memory_bytes = -1;
};

struct Device {
  int index = 0;     // NVML's, by PCI bus
  std::string uuid;  // "GPU-...": what CUDA_VISIBLE_DEVICES takes
  std::string model;
  std::string state;   // "ok", "hot" (at its slowdown temperature), "sick" (does not answer)
  std::string reason;  // of a state that is not ok
  int64_t memory_total_bytes = -1;
  int64_t memory_used_bytes = -1;
  int compute_major = 0;
  int compute_minor = 0;
  int temperature_c = -1;
  double power_w = -1;
  std::vector<DeviceProcess> processes;
};

struct DeviceList {
  std::vector<Device> devices;
  std::string reason;  // why there is none: no driver, the probe hung, NVML's own words; "" where there are some
};

// Runs `rayo-gpu-probe` (beside this program, or $RAYO_GPU_PROBE) and kills it at the deadline. About 5 ms
// without a driver, 100 ms and more with one.
DeviceList list_devices(base::TimePoint deadline);

// What the probe prints, one JSON document, and its reading; InvalidArgument for anything else.
std::string to_json(const DeviceList& list);
base::StatusOr<DeviceList> parse_devices(std::string_view json);

// In the probe: loads NVML ($RAYO_NVML_PATH, else libnvidia-ml.so.1) and asks it. May hang, may crash.
DeviceList ask_nvml();

}  // namespace rayo::gpu
