#include "runtime/raylet/node_resources.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <sched.h>
#include <sstream>
#include <unistd.h>

#include "runtime/base/cgroup.h"
#include "runtime/base/private_file.h"
#include "runtime/base/text.h"

namespace rayo::raylet {
namespace {

using base::Amount;
using base::cat;

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
constexpr double kMemoryShare = 0.7;  // of what is allowed, for workers: the rest is the arena's and the daemons'

std::string text_of(const base::Path& file) {
  auto content = base::read_file(file);
  return content.ok() ? std::string(base::trim(*content)) : std::string();
}

// Limits of a group hold for all below it: the smallest on the way up counts.
template <class Limit>
auto smallest_upwards(base::Path folder, Limit limit) {
  auto smallest = limit(folder);
  while (folder.has_relative_path() && folder != "/sys/fs/cgroup" && folder.string().size() > 14) {
    folder = folder.parent_path();
    smallest = std::min(smallest, limit(folder));
  }
  return smallest;
}

base::Status add_gpus(const base::RayletSettings& settings, NodeOffer& offer) {
  if (settings.num_gpus == 0) return absl::OkStatus();
  auto list = gpu::list_devices(base::deadline_after(base::system_clock().now(), std::chrono::seconds(5)));
  int listed = static_cast<int>(list.devices.size());
  if (settings.num_gpus > listed)
    return base::failed(absl::StatusCode::kInvalidArgument,
                        cat("--num-gpus ", settings.num_gpus, ": this machine lists ", listed,
                            list.reason.empty() ? "" : ": ", list.reason),
                        cat("give --num-gpus ", listed, " or leave it out"));
  if (settings.num_gpus > 0) list.devices.resize(static_cast<size_t>(settings.num_gpus));
  for (const auto& device : list.devices) {
    int64_t strangers = std::max<int64_t>(0, device.memory_used_bytes);
    offer.devices.push_back({.uuid = device.uuid,
                             .memory_bytes = std::max<int64_t>(0, device.memory_total_bytes - strangers),
                             .usable = device.state == "ok"});
  }
  if (!offer.devices.empty()) offer.total.set("gpu", Amount::of(static_cast<double>(offer.devices.size())));
  offer.listed = std::move(list.devices);
  return absl::OkStatus();
}

}  // namespace

double quota_of(const std::string& cpu_max_or_quota, const std::string& period) {
  std::istringstream words(cpu_max_or_quota);
  std::string quota, with_period;
  words >> quota >> with_period;
  double micros = std::atof(quota.c_str());
  double of = std::atof((with_period.empty() ? period : with_period).c_str());
  if (micros <= 0 || of <= 0) return std::numeric_limits<double>::max();  // "max", "-1" or unreadable
  return micros / of;
}

int64_t limit_of(const std::string& text) {
  int64_t bytes = std::atoll(text.c_str());
  return bytes <= 0 ? kNoLimit : bytes;
}

double allowed_cpus() {
  cpu_set_t set;
  double cpus = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                            : static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  if (auto folder = base::own_cgroup(""); !folder.empty())
    cpus = std::min(
        cpus, smallest_upwards(folder, [](const base::Path& at) { return quota_of(text_of(at / "cpu.max"), ""); }));
  if (auto folder = base::own_cgroup("cpu"); !folder.empty())
    cpus = std::min(cpus, smallest_upwards(folder, [](const base::Path& at) {
                      return quota_of(text_of(at / "cpu.cfs_quota_us"), text_of(at / "cpu.cfs_period_us"));
                    }));
  return std::max(0.1, cpus);
}

int64_t allowed_memory() {
  int64_t bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  if (auto folder = base::own_cgroup(""); !folder.empty())
    bytes = std::min(
        bytes, smallest_upwards(folder, [](const base::Path& at) { return limit_of(text_of(at / "memory.max")); }));
  if (auto folder = base::own_cgroup("memory"); !folder.empty())
    bytes = std::min(bytes, smallest_upwards(folder, [](const base::Path& at) {
                       return limit_of(text_of(at / "memory.limit_in_bytes"));
                     }));
  return bytes;
}

int64_t oom_kills() {
  if (auto folder = base::own_cgroup(""); !folder.empty()) {
    int64_t count = base::number_after(text_of(folder / "memory.events"), "oom_kill");
    if (count >= 0) return count;
  }
  if (auto folder = base::own_cgroup("memory"); !folder.empty())
    return base::number_after(text_of(folder / "memory.oom_control"), "oom_kill");
  return -1;
}

base::StatusOr<NodeOffer> measure_node(const base::RayletSettings& settings) {
  NodeOffer offer;
  offer.memory_limit_bytes = allowed_memory();
  offer.total.set("cpu", Amount::of(settings.num_cpus >= 0 ? settings.num_cpus : allowed_cpus()));
  int64_t memory = settings.memory_bytes >= 0
                       ? settings.memory_bytes
                       : static_cast<int64_t>(static_cast<double>(offer.memory_limit_bytes) * kMemoryShare);
  offer.total.set("memory", Amount{memory * Amount::kScale});  // bytes, in the fixed point of every amount
  for (const auto& [name, amount] : settings.resources) offer.total.set(name, Amount::of(amount));
  RAYO_RETURN_IF_ERROR(add_gpus(settings, offer));
  return offer;
}

}  // namespace rayo::raylet
