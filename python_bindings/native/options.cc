#include "python_bindings/native/options.h"

#include <chrono>
#include <functional>
#include <pybind11/stl.h>
#include <string>

#include <rayo/runtime.h>

#include "runtime/base/session.h"

namespace rayo::python {
namespace {

using Setters = std::map<std::string, std::function<void(py::handle)>>;

void read_options(const py::dict& options, const Setters& setters) {
  for (auto [key, value] : options) {
    const auto name = key.cast<std::string>();
    const auto setter = setters.find(name);
    if (setter == setters.end()) throw py::type_error("unknown option '" + name + "'");
    if (!value.is_none()) setter->second(value);
  }
}

NodeId node_of(py::handle hex) {
  const auto id = NodeId::from_hex(hex.cast<std::string>());
  if (!id) throw py::value_error("not a node's id: " + hex.cast<std::string>());
  return *id;
}

std::chrono::milliseconds span_of(py::handle seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds.cast<double>() * 1000));
}

void add_resources(Setters& setters, Resources& resources) {
  setters["num_cpus"] = [&](py::handle value) { resources.cpus = value.cast<double>(); };
  setters["num_gpus"] = [&](py::handle value) { resources.gpus = value.cast<double>(); };
  setters["memory"] = [&](py::handle value) { resources.memory = static_cast<int64_t>(value.cast<double>()); };
  setters["resources"] = [&](py::handle value) { resources.custom = value.cast<std::map<std::string, double>>(); };
}

template <class Options>
void add_placement(Setters& setters, Options& options) {
  setters["node"] = [&](py::handle value) { options.node = node_of(value); };
  setters["node_soft"] = [&](py::handle value) { options.node_soft = value.cast<bool>(); };
  setters["spread"] = [&](py::handle value) { options.spread = value.cast<bool>(); };
  setters["labels"] = [&](py::handle value) {
    using Rules = std::map<std::string, std::pair<std::vector<std::string>, bool>>;  // values, negated
    for (const auto& [key, rule] : value.cast<Rules>())
      options.labels.push_back({.key = key, .values = rule.first, .negate = rule.second});
  };
  setters["schedule_timeout"] = [&](py::handle value) { options.schedule_timeout = span_of(value); };
}

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

py::dict record_of(const NodeRecord& node) {
  py::dict record;
  record["NodeID"] = node.id.hex();
  record["Alive"] = node.state != NodeState::kDead;
  record["State"] = name_of(node.state);
  record["NodeManagerHostname"] = node.hostname;
  record["Address"] = node.address;
  record["Head"] = node.head;
  record["Resources"] = py::cast(node.total);
  record["Available"] = py::cast(node.free);
  record["Labels"] = py::cast(node.labels);
  return record;
}

}  // namespace

InitOptions init_options(const py::dict& options) {
  InitOptions told;
  using Amounts = std::map<std::string, double>;
  using Labels = std::map<std::string, std::string>;
  const Setters setters{
      {"address", [&](py::handle value) { told.address = value.cast<std::string>(); }},
      {"namespace", [&](py::handle value) { told.name_space = value.cast<std::string>(); }},
      {"log_to_driver", [&](py::handle value) { told.log_to_driver = value.cast<bool>(); }},
      {"num_cpus", [&](py::handle value) { told.num_cpus = value.cast<double>(); }},
      {"num_gpus", [&](py::handle value) { told.num_gpus = value.cast<int>(); }},
      {"resources", [&](py::handle value) { told.resources = value.cast<Amounts>(); }},
      {"labels", [&](py::handle value) { told.labels = value.cast<Labels>(); }},
      {"object_store_memory", [&](py::handle value) { told.object_store_memory = value.cast<int64_t>(); }}};
  read_options(options, setters);
  return told;
}

TaskOptions task_options(const py::dict& options) {
  TaskOptions told;
  Setters setters;
  add_resources(setters, told.resources);
  add_placement(setters, told);
  setters["max_retries"] = [&](py::handle value) { told.max_retries = value.cast<int>(); };
  setters["max_calls"] = [&](py::handle value) { told.max_calls = value.cast<int>(); };
  read_options(options, setters);
  return told;
}

ActorOptions actor_options(const py::dict& options) {
  ActorOptions told;
  told.stack_size = 0;  // Python runs on threads of its own (calls.h)
  Setters setters;
  add_resources(setters, told.resources);
  add_placement(setters, told);
  setters["name"] = [&](py::handle value) { told.name = value.cast<std::string>(); };
  setters["namespace"] = [&](py::handle value) { told.name_space = value.cast<std::string>(); };
  setters["get_if_exists"] = [&](py::handle value) { told.get_if_exists = value.cast<bool>(); };
  setters["max_restarts"] = [&](py::handle value) { told.max_restarts = value.cast<int>(); };
  setters["max_concurrency"] = [&](py::handle value) { told.max_concurrency = value.cast<int>(); };
  setters["max_call_retries"] = [&](py::handle value) { told.max_call_retries = value.cast<int>(); };
  setters["max_pending_calls"] = [&](py::handle value) { told.max_pending_calls = value.cast<int>(); };
  setters["environment"] = [&](py::handle value) {
    told.environment = value.cast<std::map<std::string, std::string>>();
  };
  setters["detached"] = [&](py::handle value) {
    if (value.cast<bool>()) told.lifetime = Lifetime::kDetached;
  };
  setters["start_timeout"] = [&](py::handle value) { told.start_timeout = span_of(value); };
  read_options(options, setters);
  return told;
}

py::list node_list() {
  std::vector<NodeRecord> all;
  {
    py::gil_scoped_release release;
    all = nodes();
  }
  py::list list;
  for (const NodeRecord& node : all) list.append(record_of(node));
  return list;
}

py::dict context_record() {
  const ContextRecord here = context();
  py::dict record;
  record["cluster_id"] = here.cluster.hex();
  record["cluster_name"] = here.cluster_name;
  record["node_id"] = here.node.hex();
  record["worker_id"] = here.process.hex();
  record["job_id"] = here.job.hex();
  record["namespace"] = here.name_space;
  record["address"] = here.address;
  record["remote"] = here.remote;
  record["actor_id"] = here.actor ? py::object(py::str(here.actor.hex())) : py::none();
  record["incarnation"] = here.incarnation;
  record["devices"] = py::cast(here.devices);
  record["resources"] = py::cast(here.resources);
  record["actor_name"] = here.actor_name;
  record["task_id"] = here.call ? py::object(py::str(here.call.hex())) : py::none();
  return record;
}

py::object head_address() {
  const std::string here = context().cluster.hex();
  for (const base::Session& session : base::sessions_of_home())
    if (session.cluster == here) return py::str(session.address);
  return py::none();
}

}  // namespace rayo::python
