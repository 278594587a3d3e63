#include "runtime/worker/demand.h"

#include "runtime/base/resources.h"
#include "runtime/base/text.h"
#include "runtime/worker/failure.h"

namespace rayo::worker {

namespace {

using base::Amount;

template <class Options>
proto::Demand common(const Options& options) {
  proto::Demand demand;
  const Resources& ask = options.resources;
  auto& units = *demand.mutable_resources()->mutable_units();
  if (ask.gpus != 0) units["gpu"] = Amount::of(ask.gpus).units;
  if (ask.memory != 0) units["memory"] = ask.memory * Amount::kScale;  // as nodes offer it
  for (const auto& [name, amount] : ask.custom) units[name] = Amount::of(amount).units;
  demand.set_gpu_memory_bytes(ask.gpu_memory);
  for (const LabelRule& rule : options.labels) {
    proto::LabelRule& out = *demand.add_labels();
    out.set_key(rule.key);
    for (const std::string& value : rule.values) out.add_values(value);
    out.set_negate(rule.negate);
  }
  if (options.node) set_id(demand.mutable_node(), options.node);
  demand.set_node_soft(options.node_soft);
  demand.set_spread(options.spread);
  demand.set_schedule_timeout_ms(options.schedule_timeout.count());
  return demand;
}

template <class Number>
void check_amount(std::string_view name, Number amount, int64_t most = Amount::kMost) {
  if (amount >= 0 && amount <= static_cast<Number>(most)) return;  // of NaN neither holds
  throw_error(error_record(ErrorKind::kInvalid,
                           base::cat("cannot ask for ", amount, " ", name, ": an amount is a number from 0 to ", most),
                           "ask for what a node can have: `rayo status` shows it"));
}

void check_resources(const Resources& ask) {
  check_amount("cpus", ask.cpus.value_or(0));
  check_amount("gpus", ask.gpus);
  check_amount("bytes of gpu_memory", ask.gpu_memory, Amount::kMostBytes);
  check_amount("bytes of memory", ask.memory, Amount::kMostBytes);
  for (const auto& [name, amount] : ask.custom) {
    check_amount(name, amount);
    if (!base::is_utf8(name))
      throw_error(error_record(ErrorKind::kInvalid, base::cat("the name of a resource, '", name, "', is not UTF-8"),
                               "ask for one that a node offers: `rayo status` shows them"));
  }
}

NodeState state_of(std::string_view name) {
  if (name == "suspect") return NodeState::kSuspect;
  if (name == "draining") return NodeState::kDraining;
  return name == "dead" ? NodeState::kDead : NodeState::kAlive;
}

}  // namespace

std::map<std::string, double> amounts_of(const proto::Resources& resources) {
  std::map<std::string, double> out;
  for (const auto& [name, units] : resources.units()) out[name] = Amount{units}.value();
  return out;
}

void check_options(const ActorOptions& options) {
  check_resources(options.resources);
  constexpr int64_t kLeastStack = 64 << 10;  // a frame or two of printf and a throw
  if (options.max_concurrency < 1)
    throw_error(error_record(ErrorKind::kInvalid, "an actor's max_concurrency is below 1: no call of it could run",
                             "give 1 or more"));
  if (options.stack_size != 0 && options.stack_size < kLeastStack)
    throw_error(error_record(ErrorKind::kInvalid, "an actor's stack_size is below 64 KiB: its calls would overflow it",
                             "give 256 << 10 or more"));
  if (options.max_pending_calls < 0)
    throw_error(error_record(ErrorKind::kInvalid, "an actor's max_pending_calls is a number of calls",
                             "give 1 or more, or 0 for no limit"));
  if (options.max_restarts < -1 || options.max_call_retries < -1)
    throw_error(error_record(ErrorKind::kInvalid, "an actor's max_restarts and max_call_retries are counts",
                             "give 0 or more, or -1 for without end"));
  if (options.lifetime == Lifetime::kDetached && options.name.empty())
    throw_error(error_record(ErrorKind::kInvalid, "a detached actor without a name could be found by nobody",
                             "give it a name"));
}

void check_options(const TaskOptions& options) {
  check_resources(options.resources);
  if (options.max_retries < -1 || options.max_calls < 0)
    throw_error(
        error_record(ErrorKind::kInvalid, "a task's max_retries and max_calls are counts",
                     "give max_retries 0 or more, or -1 for without end; max_calls 1 or more, or 0 for no limit"));
}

proto::Demand demand_of(const TaskOptions& options) {
  proto::Demand demand = common(options);
  const Amount cpus = Amount::of(options.resources.cpus.value_or(1));
  if (cpus.units != 0) (*demand.mutable_resources()->mutable_units())["cpu"] = cpus.units;
  return demand;
}

proto::Demand demand_of(const ActorOptions& options) {
  proto::Demand demand = common(options);
  if (!options.resources.cpus) {
    (*demand.mutable_to_place()->mutable_units())["cpu"] = Amount::of(1).units;
  } else if (*options.resources.cpus != 0) {
    (*demand.mutable_resources()->mutable_units())["cpu"] = Amount::of(*options.resources.cpus).units;
  }
  return demand;
}

bool same_demand(const TaskOptions& a, const TaskOptions& b) {
  const Resources& x = a.resources;
  const Resources& y = b.resources;
  if (x.cpus != y.cpus || x.gpus != y.gpus || x.gpu_memory != y.gpu_memory || x.memory != y.memory) return false;
  if (a.node != b.node || a.node_soft != b.node_soft || a.spread != b.spread) return false;
  if (a.schedule_timeout != b.schedule_timeout || a.max_calls != b.max_calls) return false;
  if (x.custom != y.custom || a.labels.size() != b.labels.size()) return false;
  for (size_t i = 0; i < a.labels.size(); ++i)
    if (a.labels[i].key != b.labels[i].key || a.labels[i].values != b.labels[i].values ||
        a.labels[i].negate != b.labels[i].negate)
      return false;
  return true;
}

NodeRecord node_record(const proto::NodeInfo& info) {
  NodeRecord record;
  record.id = id_of<NodeId>(info.node());
  record.hostname = info.hostname();
  record.address = info.address();
  record.state = state_of(info.state());
  record.head = info.head();
  for (const auto& [key, value] : info.labels()) record.labels[key] = value;
  record.total = amounts_of(info.total());
  record.free = amounts_of(info.free());
  for (const proto::Device& device : info.devices())
    record.devices.push_back({.index = device.index(),
                              .uuid = device.uuid(),
                              .model = device.model(),
                              .state = device.state(),
                              .memory_total_bytes = device.memory_total_bytes(),
                              .memory_used_bytes = device.memory_used_bytes(),
                              .free = Amount{device.free_units()}.value(),
                              .memory_free_bytes = device.free_memory_bytes()});
  return record;
}

}  // namespace rayo::worker
