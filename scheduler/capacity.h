// What one node has and what of it is free: amounts in fixed point, and GPUs device by device. A value without memory
// of who holds what (that is NodeLedger); the head keeps one per node, rebuilt from the raylet's reports.
//
// Devices: a demand of 1 or more GPUs takes whole devices with all their memory; a fraction takes units of the one
// device where the least is left over (best fit), and of its memory what it names. "gpu" in total() and free() is
// always the sum over the usable devices.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "scheduler/demand.h"

namespace rayo::scheduler {

struct Device {
  std::string uuid;
  int64_t memory_bytes = 0;  // what may be leased: the device's, less what strangers use
  bool usable = true;        // false: hot or sick; nothing new goes there
  bool listed = true;        // false: no longer there, kept while someone holds part of it
  int64_t used_units = 0;    // of Amount::kScale
  int64_t used_memory_bytes = 0;

  int64_t free_units() const { return Amount::kScale - used_units; }
  int64_t free_memory_bytes() const { return std::max<int64_t>(0, memory_bytes - used_memory_bytes); }
  bool untouched() const { return used_units == 0 && used_memory_bytes == 0; }
};

struct DeviceShare {
  std::string uuid;
  int64_t units = 0;
  int64_t memory_bytes = 0;
  friend bool operator==(const DeviceShare&, const DeviceShare&) = default;
};

// What a lease holds.
struct Holding {
  Resources amounts;  // "gpu" among them
  std::vector<DeviceShare> devices;
};

class Capacity {
 public:
  Capacity() = default;
  // Everything free but what `devices` and `free` say. "gpu" in either bag is replaced by the sum over `devices`.
  Capacity(Resources total, std::vector<Device> devices);
  Capacity(Resources total, Resources free, std::vector<Device> devices);

  bool fits(const Demand& demand) const;
  // What a lease would hold; nullopt where it does not fit now.
  std::optional<Holding> choose(const Demand& demand) const;
  // Would it fit if nothing were leased?
  bool could_ever(const Demand& demand) const;
  // Why it does not fit, with figures; where even the empty node could not hold it, the figures are the totals.
  std::vector<Reason> why_not(const Demand& demand) const;

  void take(const Holding& holding);  // may go below zero where the report and our reservations overlap
  void give(const Holding& holding);

  // Replaces the list of devices (health, memory of strangers, a device that came); use goes on by UUID, and a device
  // that is no longer listed stays, unusable, while someone holds part of it.
  void update_devices(std::vector<Device> devices);

  const Resources& total() const { return total_; }
  const Resources& free() const { return free_; }
  const std::vector<Device>& devices() const { return devices_; }

 private:
  void sum_devices();
  Device* find(const std::string& uuid);

  Resources total_;
  Resources free_;
  std::vector<Device> devices_;
};

}  // namespace rayo::scheduler
