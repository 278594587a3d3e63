// The nodes of the cluster as the head told them last, the dead ones with their records. A value; loop thread
// only.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <rayo/id.h>

#include "runtime/proto/common.pb.h"
#include "runtime/raylet/peer_links.h"

namespace rayo::raylet {

class Nodes {
 public:
  // True: the node was not known to be dead, and now is.
  bool learn(const proto::NodeInfo& info);
  const proto::NodeInfo* find(NodeId node) const;
  NodeId by_short_id(uint64_t short_id) const;                  // living ones; nil where there is none
  const proto::DeathRecord* death_of(uint64_t short_id) const;  // null: it lives, or nobody has told of it
  int living() const;
  std::vector<proto::NodeInfo> all() const;
  std::optional<PeerLinks::Remote> remote(NodeId node) const;

 private:
  std::map<NodeId, proto::NodeInfo> nodes_;
};

}  // namespace rayo::raylet
