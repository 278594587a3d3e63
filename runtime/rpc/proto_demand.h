// Demands, reasons and devices between the scheduler's types and their messages. Header only: who includes it links the
// scheduler.
#pragma once

#include <vector>

#include "runtime/proto/common.pb.h"
#include "runtime/rpc/proto_ids.h"
#include "scheduler/capacity.h"

namespace rayo::rpc {

inline scheduler::Demand from_proto(const proto::Demand& demand) {
  scheduler::Demand out{.resources = from_proto(demand.resources()),
                        .to_place = from_proto(demand.to_place()),
                        .gpu_memory_bytes = demand.gpu_memory_bytes(),
                        .node = from_proto<NodeId>(demand.node()),
                        .node_soft = demand.node_soft(),
                        .spread = demand.spread()};
  for (const auto& rule : demand.labels()) {
    out.labels.push_back({rule.key(), {rule.values().begin(), rule.values().end()}, rule.negate()});
  }
  return out;
}

inline void to_proto(const scheduler::Reason& reason, proto::Reason* out) {
  out->set_code(reason.code);
  out->set_text(reason.text);
  out->set_nodes(reason.nodes);
  if (reason.node) to_proto(reason.node, out->mutable_node());
}

// A node's devices as placement sees them. What is hot or sick is offered to nobody.
inline std::vector<scheduler::Device> devices_from_proto(
    const google::protobuf::RepeatedPtrField<proto::Device>& devices) {
  std::vector<scheduler::Device> out;
  for (const auto& device : devices) {
    int64_t memory = device.lease_memory_bytes() > 0 ? device.lease_memory_bytes() : device.memory_total_bytes();
    out.push_back({.uuid = device.uuid(),
                   .memory_bytes = memory,
                   .usable = device.state() != "hot" && device.state() != "sick",
                   .used_units = base::Amount::kScale - device.free_units(),
                   .used_memory_bytes = std::max<int64_t>(0, memory - device.free_memory_bytes())});
  }
  return out;
}

// The lease part of each device's message, from the ledger's own figures.
inline void lease_figures_to_proto(const scheduler::Device& device, proto::Device* out) {
  out->set_free_units(device.usable ? device.free_units() : 0);
  out->set_free_memory_bytes(device.free_memory_bytes());
  out->set_lease_memory_bytes(device.memory_bytes);
}

}  // namespace rayo::rpc
