#include "scheduler/placement.h"

#include <algorithm>
#include <map>

#include "runtime/base/text.h"

namespace rayo::scheduler {

using base::cat;

namespace {

uint64_t next_random(uint64_t& state) {  // splitmix64
  uint64_t z = (state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

bool bound_elsewhere(const Demand& demand, const ViewNode& node) {
  return demand.node && !demand.node_soft && demand.node != node.id;
}

bool eligible(const Demand& demand, const ViewNode& node, const PlaceHints& hints) {
  return node.state == NodeState::kAlive && !bound_elsewhere(demand, node) && labels_hold(demand, node.labels) &&
         node.capacity.fits(demand) && std::ranges::find(hints.avoid, node.id) == hints.avoid.end();
}

// The fullest of the asked resources after placement, as a share of the node's total. Soft load counts.
double fill(const Demand& demand, const ViewNode& node) {
  double fullest = 0;
  auto look = [&](const std::string& name, Amount ask) {
    auto total = node.capacity.total().get(name);
    if (total.units <= 0) return;
    auto used = total - node.capacity.free().get(name) + node.soft_load.get(name) + ask;
    fullest = std::max(fullest, static_cast<double>(used.units) / static_cast<double>(total.units));
  };
  static const std::string kCpu = "cpu";
  auto cpu = demand.resources.get(kCpu);
  for (const auto& [name, amount] : demand.resources.amounts()) {
    if (name != kCpu) look(name, amount);
  }
  look(kCpu, std::max(cpu, demand.to_place.get(kCpu)));
  return fullest;
}

double score(const Demand& demand, const ViewNode& node, const PlaceHints& hints) {
  double full = fill(demand, node);
  if (demand.spread) return 1 - full;
  bool preferred = hints.prefer == node.id && hints.prefer;
  if (full <= kPackUntil) return 2 + full + (preferred ? 1 : 0);
  return 1 - full + (preferred ? 0.001 : 0);
}

// Keeps the better one; of equals the smaller id, so that the order of nodes does not matter.
struct Best {
  const ViewNode* node = nullptr;
  double score = 0;
  void offer(const ViewNode& candidate, double its_score) {
    if (node && (its_score < score || (its_score == score && node->id <= candidate.id))) return;
    node = &candidate;
    score = its_score;
  }
};

// Looks at kSamples at most, and no further once kEnough of them fit: each look costs some cache misses.
constexpr size_t kEnough = 4;

Best sampled(const Demand& demand, const ClusterView& view, const PlaceHints& hints) {
  Best best;
  uint64_t state = hints.seed;
  size_t fitting = 0;
  for (size_t i = 0; i < kSamples && fitting < kEnough; ++i) {
    const auto& node = view.nodes()[next_random(state) % view.nodes().size()];
    if (!eligible(demand, node, hints)) continue;
    best.offer(node, score(demand, node, hints));
    ++fitting;
  }
  const auto* preferred = hints.prefer ? view.find(hints.prefer) : nullptr;
  if (preferred && eligible(demand, *preferred, hints)) best.offer(*preferred, score(demand, *preferred, hints));
  return best;
}

Best exact(const Demand& demand, const ClusterView& view, const PlaceHints& hints) {
  Best best;
  for (const auto& node : view.nodes()) {
    if (eligible(demand, node, hints)) best.offer(node, score(demand, node, hints));
  }
  return best;
}

std::string rule_text(const LabelRule& rule) {
  if (rule.values.empty()) return cat(rule.negate ? "no label " : "the label ", rule.key);
  return cat(rule.key, rule.negate ? " not " : " = ", base::join(rule.values, " or "));
}

Reason label_reason(const Demand& demand, const ViewNode& node) {
  for (const auto& rule : demand.labels) {
    if (label_holds(rule, node.labels)) continue;
    auto found = node.labels.find(rule.key);
    std::string has =
        found == node.labels.end() ? cat("has no label ", rule.key) : cat("has ", rule.key, " = ", found->second);
    return {"label_mismatch", cat("asks for ", rule_text(rule), ", the node ", has)};
  }
  return {};
}

std::vector<Reason> reasons_of(const Demand& demand, const ViewNode& node) {
  std::vector<Reason> out;
  if (bound_elsewhere(demand, node)) return out;
  if (node.state != NodeState::kAlive) {
    out.push_back({"node_unavailable", cat("the node ", node.name, " is ", name_of(node.state))});
  } else if (!labels_hold(demand, node.labels)) {
    out.push_back(label_reason(demand, node));
  } else {
    out = node.capacity.why_not(demand);
  }
  for (auto& reason : out) reason.node = node.id;
  return out;
}

Reason bound_to_unknown(const Demand& demand) {
  return {"node_unavailable", cat("it is bound to the node ", demand.node.hex(), ", which is not in the cluster"), 1,
          demand.node};
}

}  // namespace

std::optional<NodeId> place(const Demand& demand, const ClusterView& view, const PlaceHints& hints) {
  if (view.nodes().empty()) return std::nullopt;
  if (demand.node) {
    const auto* bound = view.find(demand.node);
    if (bound && eligible(demand, *bound, hints)) return bound->id;
    if (!demand.node_soft) return std::nullopt;
  }
  Best best = view.nodes().size() > kExactUpTo ? sampled(demand, view, hints) : Best{};
  if (!best.node) best = exact(demand, view, hints);
  return best.node ? std::optional(best.node->id) : std::nullopt;
}

bool chosen_if_preferred(const Demand& demand, const ViewNode& node) {
  const bool free_to_choose = !demand.spread && (!demand.node || demand.node == node.id);
  return free_to_choose && eligible(demand, node, {}) && fill(demand, node) <= kPackUntil;
}

bool could_ever_hold(const Demand& demand, const ClusterView& view) {
  return std::ranges::any_of(view.nodes(), [&](const ViewNode& node) {
    bool living = node.state == NodeState::kAlive || node.state == NodeState::kSuspect;
    return living && !bound_elsewhere(demand, node) && labels_hold(demand, node.labels) &&
           node.capacity.could_ever(demand);
  });
}

std::vector<Reason> explain_each(const Demand& demand, const ClusterView& view) {
  if (view.nodes().empty()) return {{"no_nodes", "the cluster has no nodes", 0}};
  std::vector<Reason> out;
  for (const auto& node : view.nodes()) {
    auto reasons = reasons_of(demand, node);
    out.insert(out.end(), reasons.begin(), reasons.end());
  }
  if (demand.node && !demand.node_soft && !view.find(demand.node)) out.push_back(bound_to_unknown(demand));
  return out;
}

std::vector<Reason> explain(const Demand& demand, const ClusterView& view) {
  if (view.nodes().empty()) return {{"no_nodes", "the cluster has no nodes", 0}};
  struct Group {
    Reason reason;
    double closest = 0;
    int nodes = 0;
  };
  std::map<std::string, Group> by_code;
  for (const auto& node : view.nodes()) {
    auto reasons = reasons_of(demand, node);
    if (reasons.empty() && !bound_elsewhere(demand, node)) return {};
    // A node that fails for one reason alone, and that could hold it when empty, comes closest.
    double closeness = (node.capacity.could_ever(demand) ? 2.0 : 1.0) / (1.0 + static_cast<double>(reasons.size()));
    for (auto& reason : reasons) {
      auto& group = by_code[reason.code];
      ++group.nodes;
      if (closeness <= group.closest) continue;
      group.closest = closeness;
      group.reason = std::move(reason);
    }
  }
  std::vector<Reason> out;
  for (auto& [code, group] : by_code) {
    group.reason.nodes = group.nodes;
    if (group.nodes > 1) group.reason.node = {};
    out.push_back(std::move(group.reason));
  }
  if (demand.node && !demand.node_soft && !view.find(demand.node)) out.push_back(bound_to_unknown(demand));
  return out;
}

}  // namespace rayo::scheduler
