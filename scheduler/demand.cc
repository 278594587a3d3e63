#include "scheduler/demand.h"

#include <algorithm>

#include "runtime/base/text.h"

namespace rayo::scheduler {

using base::cat;

namespace {

base::Status check_amounts(const Resources& resources) {
  for (const auto& [name, amount] : resources.amounts()) {
    if (amount.units < 0) {
      return base::failed(absl::StatusCode::kInvalidArgument,
                          cat("a demand of ", amount.text(), " ", name, " is negative"), "ask for 0 or more");
    }
  }
  return {};
}

}  // namespace

base::Status check(const Demand& demand) {
  RAYO_RETURN_IF_ERROR(check_amounts(demand.resources));
  RAYO_RETURN_IF_ERROR(check_amounts(demand.to_place));
  auto gpu = demand.resources.get("gpu");
  if (gpu.units > Amount::kScale && gpu.units % Amount::kScale != 0) {
    return base::failed(absl::StatusCode::kInvalidArgument,
                        cat("a demand of ", gpu.text(), " GPU: over 1 only whole devices can be leased"),
                        "ask for a fraction of one device, or for a whole number");
  }
  if (demand.gpu_memory_bytes < 0) {
    return base::failed(absl::StatusCode::kInvalidArgument, "a demand of negative GPU memory", "ask for 0 or more");
  }
  return {};
}

Resources needed(const Demand& demand) {
  Resources out = demand.resources;
  for (const auto& [name, amount] : demand.to_place.amounts()) {
    if (name != "gpu" && out.get(name) < amount) out.set(name, amount);
  }
  return out;
}

Resources soft_load(const Demand& demand) {
  Resources out;
  for (const auto& [name, amount] : demand.to_place.amounts()) {
    auto held = demand.resources.get(name);
    if (name != "gpu" && held < amount) out.set(name, amount - held);
  }
  if (out.empty() && demand.resources.empty()) out.set("cpu", Amount::of(0.1));
  return out;
}

bool label_holds(const LabelRule& rule, const Labels& labels) {
  auto found = labels.find(rule.key);
  const bool has = found != labels.end() &&
                   (rule.values.empty() || std::ranges::find(rule.values, found->second) != rule.values.end());
  return has != rule.negate;
}

bool labels_hold(const Demand& demand, const Labels& labels) {
  return std::ranges::all_of(demand.labels, [&](const LabelRule& rule) { return label_holds(rule, labels); });
}

// Each text behind its length, each list behind its count: a user's words may hold any separator.
std::string shape_key(const Demand& demand) {
  std::string out;
  auto add_text = [&](const std::string& text) { out += cat(text.size(), ':', text); };
  auto add = [&](const Resources& resources) {
    out += cat(resources.amounts().size(), ';');
    for (const auto& [name, amount] : resources.amounts()) {
      add_text(name);
      out += cat('=', amount.units, ',');
    }
  };
  add(demand.resources);
  add(demand.to_place);
  out += cat(demand.gpu_memory_bytes, ';', demand.node.hex(), demand.node_soft, demand.spread, ';');
  for (const auto& rule : demand.labels) {
    add_text(rule.key);
    out += cat(rule.negate ? '!' : '=', rule.values.size(), ';');
    for (const auto& value : rule.values) add_text(value);
  }
  return out;
}

}  // namespace rayo::scheduler
