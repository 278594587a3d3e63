// What a task or an actor asks of a node, and why a node cannot give it: values, shared by raylet and head.
//
//   Demand ask{.resources = {{"cpu", Amount::of(1)}, {"gpu", Amount::of(0.5)}}, .gpu_memory_bytes = 8LL << 30};
//   if (auto bad = check(ask); !bad.ok()) return bad;   // 1.5 GPU is nothing that a device can give
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <rayo/id.h>

#include "runtime/base/resources.h"
#include "runtime/base/status.h"

namespace rayo::scheduler {

using base::Amount;
using base::Resources;

// The node's label `key` has one of `values` (negate: has none of them). No values: the label exists (negate: is
// absent).
struct LabelRule {
  std::string key;
  std::vector<std::string> values;
  bool negate = false;
};

struct Demand {
  Resources resources;           // held while it lives; "gpu" below 1 is a part of one device, else whole devices
  Resources to_place;            // must be free at placement, not held; "gpu" is not looked at
  int64_t gpu_memory_bytes = 0;  // on each device asked for; without "gpu": on one device
  std::vector<LabelRule> labels;
  NodeId node;             // affinity; nil: any
  bool node_soft = false;  // another node will do where that one cannot
  bool spread = false;     // the least loaded node, and (head) another one than the last ones of this shape
};

// One reason, with figures. Codes: insufficient_cpu, insufficient_gpu, insufficient_memory, insufficient_resource,
// label_mismatch, node_unavailable, no_nodes.
struct Reason {
  std::string code;
  std::string text;
  int nodes = 1;  // how many nodes say so
  NodeId node;    // nil where it stands for several
};

// InvalidArgument: negative amounts, or GPUs over 1 that are not whole.
base::Status check(const Demand& demand);

// The larger of `resources` and `to_place` for every name but "gpu", which is that of `resources`.
Resources needed(const Demand& demand);

// What the placed thing weighs for the choice among nodes beyond what it holds: to_place - resources, and 0.1 CPU for
// one that asks for nothing at all, so that a thousand default actors do not end up on one node.
Resources soft_load(const Demand& demand);

using Labels = std::map<std::string, std::string, std::less<>>;
bool label_holds(const LabelRule& rule, const Labels& labels);
// Whether a node with these labels may have it.
bool labels_hold(const Demand& demand, const Labels& labels);

// Equal for equal demands, and for no others: what waits is grouped by it.
std::string shape_key(const Demand& demand);

}  // namespace rayo::scheduler
