#include "runtime/raylet/nodes.h"

#include <algorithm>

#include "runtime/base/ids.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::raylet {

bool Nodes::learn(const proto::NodeInfo& info) {
  auto id = rpc::from_proto<NodeId>(info.node());
  proto::NodeInfo& slot = nodes_[id];
  bool died = info.state() == "dead" && slot.state() != "dead";
  slot = info;
  return died;
}

const proto::NodeInfo* Nodes::find(NodeId node) const {
  auto found = nodes_.find(node);
  return found == nodes_.end() ? nullptr : &found->second;
}

NodeId Nodes::by_short_id(uint64_t short_id) const {
  for (const auto& [id, info] : nodes_)
    if (base::short_id(id) == short_id && info.state() != "dead") return id;
  return {};
}

const proto::DeathRecord* Nodes::death_of(uint64_t short_id) const {
  for (const auto& [id, info] : nodes_)
    if (base::short_id(id) == short_id && info.state() == "dead") return &info.death();
  return nullptr;
}

int Nodes::living() const {
  return static_cast<int>(
      std::count_if(nodes_.begin(), nodes_.end(), [](const auto& entry) { return entry.second.state() != "dead"; }));
}

std::vector<proto::NodeInfo> Nodes::all() const {
  std::vector<proto::NodeInfo> infos;
  for (const auto& [id, info] : nodes_) infos.push_back(info);
  return infos;
}

std::optional<PeerLinks::Remote> Nodes::remote(NodeId node) const {
  const proto::NodeInfo* info = find(node);
  if (!info) return std::nullopt;
  return PeerLinks::Remote{.host_port = info->address(),
                           .data_host_port = info->data_address(),
                           .machine = info->machine(),
                           .death = info->state() == "dead" ? &info->death() : nullptr};
}

}  // namespace rayo::raylet
