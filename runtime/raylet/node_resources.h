// What this node may offer: processors by affinity and cgroup quota, memory by machine and cgroup, GPUs as
// listed, and what its settings say instead. Read once at start; blocks some milliseconds (a GPU probe:
// seconds). Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "runtime/base/settings.h"
#include "runtime/base/status.h"
#include "scheduler/capacity.h"

namespace rayo::raylet {

struct NodeOffer {
  scheduler::Resources total;  // cpu, memory, gpu, custom ones
  std::vector<scheduler::Device> devices;
  std::vector<gpu::Device> listed;  // as NVML tells them, for status
  int64_t memory_limit_bytes = 0;   // of the cgroup, or the machine
};

// InvalidArgument: more GPUs asked for than are listed.
base::StatusOr<NodeOffer> measure_node(const base::RayletSettings& settings);

// The smaller of affinity and the cgroup's quota (version 1 or 2), at least 1/10.
double allowed_cpus();
// The smaller of the machine's memory and the cgroup's limit.
int64_t allowed_memory();

// How often the kernel killed something in our cgroup for want of memory; -1 where it cannot be read.
int64_t oom_kills();

// A cgroup's limit files, as text: pure, for the two above.
double quota_of(const std::string& cpu_max_or_quota, const std::string& period);
int64_t limit_of(const std::string& text);

}  // namespace rayo::raylet
