#include "runtime/raylet/device_health.h"

#include <algorithm>

namespace rayo::raylet {
namespace {

// A driver that does not answer once may be busy: the devices are called sick the second time.
constexpr int kFailures = 2;

// What a listing says of a known device. One that is lost tells no UUID; its place on the bus is its own.
const gpu::Device* find(const gpu::DeviceList& list, const gpu::Device& known) {
  for (const auto& device : list.devices)
    if (device.uuid == known.uuid || (device.uuid.empty() && device.index == known.index)) return &device;
  return nullptr;
}

}  // namespace

bool DeviceHealth::update(const gpu::DeviceList& list, const std::function<bool(const std::string&)>& leased) {
  if (list.devices.empty()) {
    if (++failures_ < kFailures) return false;
    fail(list.reason);
    return settle(leased);
  }
  failures_ = 0;
  for (auto& known : listed_) {
    const gpu::Device* now = find(list, known);
    if (now && !now->uuid.empty()) {
      known = *now;
      continue;
    }
    known.state = "sick";
    known.reason = now ? now->reason : "the NVIDIA driver lists it no more";
  }
  return settle(leased);
}

void DeviceHealth::fail(const std::string& reason) {
  for (auto& device : listed_) {
    device.state = "sick";
    device.reason = reason;
  }
}

bool DeviceHealth::settle(const std::function<bool(const std::string&)>& leased) {
  bool changed = false;
  for (auto& offered : offered_) {
    auto device = std::ranges::find(listed_, offered.uuid, &gpu::Device::uuid);
    const bool usable = device != listed_.end() && device->state == "ok";
    changed = changed || usable != offered.usable;
    offered.usable = usable;
    if (!usable || leased(offered.uuid)) continue;
    const int64_t memory =
        std::max<int64_t>(0, device->memory_total_bytes - std::max<int64_t>(0, device->memory_used_bytes));
    changed = changed || memory != offered.memory_bytes;
    offered.memory_bytes = memory;
  }
  return changed;
}

}  // namespace rayo::raylet
