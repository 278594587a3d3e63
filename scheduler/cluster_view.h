// The nodes as placement sees them. Owned by the head's loop (or a simulation); a value without I/O.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "scheduler/capacity.h"

namespace rayo::scheduler {

enum class NodeState { kAlive, kSuspect, kDraining, kDead };
const char* name_of(NodeState state);  // "alive", ...

struct ViewNode {
  NodeId id;
  std::string name;  // host name, for reasons
  Labels labels;
  NodeState state = NodeState::kAlive;
  std::string machine;
  Capacity capacity;
  Resources soft_load;  // of what was placed there and holds less than it weighs (soft_load() of its demand)
};

class ClusterView {
 public:
  // Adds the node or replaces it.
  void put(ViewNode node);
  void remove(NodeId id);
  ViewNode* find(NodeId id);
  const ViewNode* find(NodeId id) const;
  const std::vector<ViewNode>& nodes() const { return nodes_; }  // in no order; pointers live until put() or remove()

 private:
  std::vector<ViewNode> nodes_;
  std::unordered_map<NodeId, size_t> index_;
};

}  // namespace rayo::scheduler
