// This node's GPUs over time: what each new listing says of those that are known. A device that falls off the bus, gets
// hot or is listed no more leaves the pool and stays in `status` with the reason; one that is well again comes back.
// Decides only. One owner.
//
//   DeviceHealth health(offer.listed, offer.devices);
//   if (health.update(gpu::list_devices(deadline), leased)) table.update_devices(health.offered());
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "scheduler/capacity.h"

namespace rayo::raylet {

class DeviceHealth {
 public:
  // As measured at the start: `offered` has the memory that may be leased of each.
  DeviceHealth(std::vector<gpu::Device> listed, std::vector<scheduler::Device> offered)
      : listed_(std::move(listed)), offered_(std::move(offered)) {}

  // True where what may be leased has changed. `leased` says whether somebody of ours uses the device: then what is in
  // use of its memory is not strangers' alone, and what is offered of it stays.
  bool update(const gpu::DeviceList& list, const std::function<bool(const std::string& uuid)>& leased);

  // As status shows them.
  const std::vector<gpu::Device>& listed() const { return listed_; }
  // As leases take them; use is the table's to know.
  const std::vector<scheduler::Device>& offered() const { return offered_; }

 private:
  void fail(const std::string& reason);
  bool settle(const std::function<bool(const std::string& uuid)>& leased);

  std::vector<gpu::Device> listed_;
  std::vector<scheduler::Device> offered_;
  int failures_ = 0;  // listings in a row that answered nothing
};

}  // namespace rayo::raylet
