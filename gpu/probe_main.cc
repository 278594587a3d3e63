// rayo-gpu-probe: prints the devices that NVML lists as one JSON document (gpu/device.h) and ends. The raylet
// runs it, so that a driver that hangs or crashes takes this program with it and nothing else. Exit code 0
// also where there is no driver.
#include <cstdio>
#include <cstdlib>

#include "gpu/device.h"

int main() {
  std::puts(rayo::gpu::to_json(rayo::gpu::ask_nvml()).c_str());
  std::fflush(stdout);
  std::_Exit(0);  // NVML's own exit handlers have been seen to wait for a device that is gone
}
