// What the head is told of this node's resources: a report some milliseconds after something changed, several
// changes in one.
//
// Loop thread only.
#pragma once

#include <functional>
#include <vector>

#include "gpu/device.h"
#include "runtime/base/loop/loop.h"
#include "runtime/proto/head.pb.h"
#include "scheduler/capacity.h"

namespace rayo::raylet {

class ResourceReporter {
 public:
  using Make = std::function<proto::ResourceReport()>;
  using Send = std::function<void(proto::ResourceReport)>;
  ResourceReporter(base::Loop& loop, Make make, Send send);

  void changed();

 private:
  base::Loop& loop_;
  Make make_;
  Send send_;
  std::string last_;  // as sent: what did not change is not told
  base::Timer timer_;
};

// Devices as status shows them, with what of them is leased.
std::vector<proto::Device> describe_devices(const std::vector<gpu::Device>& listed,
                                            const std::vector<scheduler::Device>& leased);

}  // namespace rayo::raylet
