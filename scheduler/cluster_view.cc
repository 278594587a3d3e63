#include "scheduler/cluster_view.h"

namespace rayo::scheduler {

const char* name_of(NodeState state) {
  switch (state) {
    case NodeState::kAlive:
      return "alive";
    case NodeState::kSuspect:
      return "suspect";
    case NodeState::kDraining:
      return "draining";
    case NodeState::kDead:
      return "dead";
  }
  return "unknown";
}

void ClusterView::put(ViewNode node) {
  auto [at, fresh] = index_.try_emplace(node.id, nodes_.size());
  if (fresh) {
    nodes_.push_back(std::move(node));
  } else {
    nodes_[at->second] = std::move(node);
  }
}

void ClusterView::remove(NodeId id) {
  auto found = index_.find(id);
  if (found == index_.end()) return;
  size_t hole = found->second;
  index_.erase(found);
  if (hole + 1 != nodes_.size()) {
    nodes_[hole] = std::move(nodes_.back());
    index_[nodes_[hole].id] = hole;
  }
  nodes_.pop_back();
}

ViewNode* ClusterView::find(NodeId id) {
  auto found = index_.find(id);
  return found == index_.end() ? nullptr : &nodes_[found->second];
}

const ViewNode* ClusterView::find(NodeId id) const { return const_cast<ClusterView*>(this)->find(id); }

}  // namespace rayo::scheduler
