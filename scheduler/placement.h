// Where a demand goes. Filter: alive, labels, affinity, capacity by device. Score: packing until a node is half full,
// the preferred node (locality) first, and then spreading; of a demand that says spread, the emptiest. Deterministic:
// the same view, demand and seed give the same node.
//
//   if (auto node = place(demand, view, {.prefer = creator_node, .seed = 7})) start_on(*node);
//   else for (const Reason& reason : explain(demand, view)) ...
//
// Up to kExactUpTo nodes every one is scored; beyond, kSamples drawn by the seed are, and only when none of them fits
// is every node looked at: a decision among 10,000 nodes takes microseconds, and a demand that fits somewhere is always
// placed.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "scheduler/cluster_view.h"

namespace rayo::scheduler {

struct PlaceHints {
  NodeId prefer;  // where the arguments or the creator are; nil: none
  uint64_t seed = 0;
  std::span<const NodeId> avoid;  // nodes that refused it a moment ago
};

constexpr size_t kExactUpTo = 48;
constexpr size_t kSamples = 12;
constexpr double kPackUntil = 0.5;  // share of a node's resource in use

std::optional<NodeId> place(const Demand& demand, const ClusterView& view, const PlaceHints& hints);

// Whether place() would choose this node as the preferred one whatever the others hold, so that nobody needs to look.
bool chosen_if_preferred(const Demand& demand, const ViewNode& node);

// Could any living node (suspect ones count, draining ones do not) hold it if nothing else ran there?
bool could_ever_hold(const Demand& demand, const ClusterView& view);

// Why it is placed nowhere now: one reason for each code, of the node that comes closest, with the number of nodes that
// say so. Empty where it fits somewhere.
std::vector<Reason> explain(const Demand& demand, const ClusterView& view);

// The same node by node, for `rayo why`. A node on which it would fit says nothing.
std::vector<Reason> explain_each(const Demand& demand, const ClusterView& view);

}  // namespace rayo::scheduler
