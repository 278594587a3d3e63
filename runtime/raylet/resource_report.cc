#include "runtime/raylet/resource_report.h"

#include <algorithm>

#include "runtime/rpc/proto_demand.h"

namespace rayo::raylet {
namespace {

constexpr base::Duration kCoalesce = std::chrono::milliseconds(10);

}  // namespace

ResourceReporter::ResourceReporter(base::Loop& loop, Make make, Send send)
    : loop_(loop), make_(std::move(make)), send_(std::move(send)) {}

void ResourceReporter::changed() {
  if (timer_.pending()) return;
  timer_ = loop_.after(kCoalesce, [this] {
    proto::ResourceReport report = make_();
    std::string bytes = report.SerializeAsString();
    if (bytes == last_) return;
    last_ = std::move(bytes);
    send_(std::move(report));
  });
}

std::vector<proto::Device> describe_devices(const std::vector<gpu::Device>& listed,
                                            const std::vector<scheduler::Device>& leased) {
  std::vector<proto::Device> out;
  for (const auto& device : listed) {
    proto::Device message;
    message.set_index(device.index);
    message.set_uuid(device.uuid);
    message.set_model(device.model);
    message.set_state(device.state);
    message.set_reason(device.reason);
    message.set_memory_total_bytes(device.memory_total_bytes);
    message.set_memory_used_bytes(device.memory_used_bytes);
    message.set_temperature_c(device.temperature_c);
    message.set_power_w(device.power_w);
    auto lease = std::find_if(leased.begin(), leased.end(), [&](const auto& one) { return one.uuid == device.uuid; });
    if (lease != leased.end()) rpc::lease_figures_to_proto(*lease, &message);
    out.push_back(std::move(message));
  }
  return out;
}

}  // namespace rayo::raylet
