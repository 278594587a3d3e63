#include "runtime/rpc/status_json.h"

#include <boost/json.hpp>
#include <set>

#include "runtime/base/text.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::rpc {

namespace json = boost::json;

namespace {

std::string hex(const proto::Id& id) { return from_proto<ClusterId>(id).hex(); }

double since_epoch(int64_t unix_us) { return static_cast<double>(unix_us) / 1e6; }

// Amounts travel in 1/10,000; memory is told in whole bytes.
json::value amount(const std::string& name, int64_t units) {
  if (name == "memory") return units / base::Amount::kScale;
  return base::Amount{units}.value();
}

std::string json_name(const std::string& name) { return name == "memory" ? "memory_bytes" : name; }

int64_t units_of(const proto::Resources& resources, const std::string& name) {
  auto found = resources.units().find(name);
  return found == resources.units().end() ? 0 : found->second;
}

json::object totals_and_free(const proto::Resources& total, const proto::Resources& free) {
  std::set<std::string> names{"cpu", "gpu", "memory"};
  for (const auto& [name, units] : total.units()) names.insert(name);
  json::object out;
  for (const auto& name : names) {
    out[json_name(name)] = {{"total", amount(name, units_of(total, name))},
                            {"free", amount(name, units_of(free, name))}};
  }
  return out;
}

json::value device_json(const proto::Device& device) {
  return {{"index", device.index()},
          {"uuid", device.uuid()},
          {"model", device.model()},
          {"state", device.state()},
          {"reason", device.reason()},
          {"memory_total_bytes", device.memory_total_bytes()},
          {"memory_used_bytes", device.memory_used_bytes()},
          {"temperature_c", device.temperature_c()},
          {"power_w", device.power_w()},
          {"free", base::Amount{device.free_units()}.value()}};
}

template <class Repeated, class F>
json::array array_of(const Repeated& items, F make) {
  json::array out;
  for (const auto& item : items) out.push_back(make(item));
  return out;
}

json::value named_json(const proto::ActorInfo& actor) {
  return {{"name", actor.name()},
          {"namespace", actor.namespace_()},
          {"id", hex(actor.actor())},
          {"state", actor_state_text(actor.state())},
          {"node", hex(actor.address().node())}};
}

json::value pending_json(const proto::PendingGroup& group) {
  return {{"kind", group.kind()},
          {"resources", amounts_json(group.resources())},
          {"count", group.count()},
          {"oldest_waiting_seconds", group.oldest_waiting_seconds()},
          {"reasons", reasons_json(group.reasons())},
          {"examples", array_of(group.examples(), [](const std::string& id) { return json::value(id); })}};
}

json::value event_json(const proto::Event& event) {
  return {{"at", since_epoch(event.at_unix_us())}, {"severity", event.severity()}, {"text", event.text()}};
}

}  // namespace

std::string death_kind_text(proto::DeathKind kind) {
  return kind == proto::DEATH_UNSPECIFIED ? "" : base::lower(proto::DeathKind_Name(kind));
}

std::string actor_state_text(proto::ActorState state) { return base::lower(proto::ActorState_Name(state)); }

json::value amounts_json(const proto::Resources& resources) {
  json::object out;
  std::map<std::string, int64_t> sorted(resources.units().begin(), resources.units().end());
  for (const auto& [name, units] : sorted) out[json_name(name)] = amount(name, units);
  return out;
}

json::value reasons_json(const google::protobuf::RepeatedPtrField<proto::Reason>& reasons) {
  return array_of(reasons, [](const proto::Reason& reason) {
    return json::value{{"code", reason.code()}, {"text", reason.text()}, {"nodes", reason.nodes()}};
  });
}

json::value death_json(const proto::DeathRecord& death) {
  if (death.kind() == proto::DEATH_UNSPECIFIED) return nullptr;
  return {
      {"at", since_epoch(death.at_unix_us())},
      {"node", hex(death.node())},
      {"pid", death.pid()},
      {"kind", death_kind_text(death.kind())},
      {"exit_code", death.exit_code()},
      {"signal", death.signal()},
      {"core_dumped", death.core_dumped()},
      {"rss_peak_bytes", death.rss_peak_bytes()},
      {"incarnation", death.incarnation()},
      {"text", death.text()},
      {"last_log_lines", array_of(death.last_log_lines(), [](const std::string& line) { return json::value(line); })}};
}

json::value node_json(const proto::NodeInfo& node) {
  json::object labels;
  std::map<std::string, std::string> sorted(node.labels().begin(), node.labels().end());
  for (const auto& [key, value] : sorted) labels[key] = value;
  return {{"id", hex(node.node())},
          {"hostname", node.hostname()},
          {"address", node.address()},
          {"state", node.state()},
          {"head", node.head()},
          {"labels", std::move(labels)},
          {"started_at", since_epoch(node.started_at_unix_us())},
          {"last_seen_seconds_ago", node.last_seen_seconds_ago()},
          {"resources", totals_and_free(node.total(), node.free())},
          {"devices", array_of(node.devices(), device_json)},
          {"object_store",
           {{"capacity_bytes", node.object_store_capacity_bytes()},
            {"used_bytes", node.object_store_used_bytes()},
            {"spilled_bytes", 0}}},
          {"workers", node.workers()},
          {"drivers", node.drivers()},
          {"death", node.has_death() ? death_json(node.death()) : json::value(nullptr)}};
}

std::string status_json(const proto::StatusReply& status) {
  json::object document{{"schema", kStatusSchema},
                        {"cluster",
                         {{"id", hex(status.cluster())},
                          {"name", status.name()},
                          {"epoch", status.epoch()},
                          {"version", status.version()},
                          {"started_at", since_epoch(status.started_at_unix_us())},
                          {"address", status.address()},
                          {"http", status.http()},
                          {"reachable", status.reachable()},
                          {"as_of", since_epoch(status.as_of_unix_us())}}},
                        {"nodes", array_of(status.nodes(), node_json)},
                        {"actors",
                         {{"pending", status.actors_pending()},
                          {"starting", status.actors_starting()},
                          {"alive", status.actors_alive()},
                          {"restarting", status.actors_restarting()},
                          {"dead", status.actors_dead()},
                          {"named", array_of(status.named_actors(), named_json)}}},
                        {"pending", array_of(status.pending(), pending_json)},
                        {"events", array_of(status.events(), event_json)}};
  return base::as_utf8(json::serialize(document));
}

}  // namespace rayo::rpc
