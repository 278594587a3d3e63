#include "runtime/cli/status_text.h"

#include <ctime>

#include "runtime/base/text.h"
#include "runtime/base/units.h"
#include "runtime/cli/terminal.h"
#include "runtime/rpc/proto_ids.h"
#include "runtime/rpc/status_json.h"

namespace rayo::cli {
namespace {

using base::cat;

constexpr int kMostEvents = 8;

base::Amount amount_of(const proto::Resources& resources, const std::string& name) {
  auto found = resources.units().find(name);
  return {found == resources.units().end() ? 0 : found->second};
}

std::string pair(const proto::NodeInfo& node, const std::string& name) {
  base::Amount total = amount_of(node.total(), name), free = amount_of(node.free(), name);
  if (total.units == 0) return "-";
  if (name != "memory") return cat(free.text(), "/", total.text());
  return cat(base::format_size(free.units / base::Amount::kScale), "/",
             base::format_size(total.units / base::Amount::kScale));
}

std::string size_pair(int64_t used, int64_t total) {
  return total <= 0 ? "-" : cat(base::format_size(used), "/", base::format_size(total));
}

std::string resources_text(const proto::Resources& resources) {
  std::vector<std::string> parts;
  base::Resources held = rpc::from_proto(resources);
  for (const auto& [name, amount] : held.amounts()) {
    std::string value = name == "memory" ? base::format_size(amount.units / base::Amount::kScale) : amount.text();
    parts.push_back(cat(name, ": ", value));
  }
  return cat("{", base::join(parts, ", "), "}");
}

base::Duration since(int64_t unix_us, base::WallTime now) {
  return now.time_since_epoch() - std::chrono::microseconds(unix_us);
}

std::string heading(const proto::StatusReply& status, base::WallTime now) {
  std::string text = cat("Cluster ", status.name(), "  ", status.address());
  const base::WallTime told =
      status.reachable() ? now : base::WallTime(std::chrono::microseconds(status.as_of_unix_us()));
  if (status.started_at_unix_us() > 0)
    text += cat(status.reachable() ? "  up " : "  was up ",
                base::format_duration(since(status.started_at_unix_us(), told)));
  text += cat("  (Rayo ", status.version(), ")");
  if (!status.http().empty()) text += cat("  ", status.http());
  text += "\n";
  if (!status.reachable()) {
    text += cat("The head does not answer; it was heard ", base::format_duration(since(status.as_of_unix_us(), now)),
                " ago, at ", clock_text(status.as_of_unix_us(), now),
                ". This node and its actors are shown as they are, other nodes as they were then.\n");
  }
  return text;
}

std::string node_name(const proto::NodeInfo& node) { return cat(node.hostname(), node.head() ? " (head)" : ""); }

// Custom resources and labels: what the columns do not hold.
std::string extras(const proto::NodeInfo& node) {
  std::vector<std::string> parts;
  base::Resources total = rpc::from_proto(node.total());
  for (const auto& [name, amount] : total.amounts()) {
    if (name == "cpu" || name == "gpu" || name == "memory" || name == "object_store") continue;
    parts.push_back(cat(name, " ", amount_of(node.free(), name).text(), "/", amount.text()));
  }
  std::map<std::string, std::string> labels(node.labels().begin(), node.labels().end());
  for (const auto& [key, value] : labels) parts.push_back(cat(key, "=", value));
  return base::join(parts, " ");
}

// Of a node whose state is not of this moment: how old it is.
std::string state_of(const proto::NodeInfo& node, bool reachable) {
  if (node.state() == "alive" && (reachable || node.last_seen_seconds_ago() == 0)) return node.state();
  return cat(node.state(), " (seen ",
             base::format_duration(std::chrono::duration_cast<base::Duration>(
                 std::chrono::duration<double>(node.last_seen_seconds_ago()))),
             " ago)");
}

std::string nodes_text(const proto::StatusReply& status) {
  std::vector<std::vector<std::string>> rows = {{"NODE", "ID", "ADDRESS", "STATE", "CPU free", "GPU free",
                                                 "MEMORY free", "OBJECTS used", "WORKERS", "DRIVERS", ""}};
  for (const proto::NodeInfo& node : status.nodes()) {
    rows.push_back({node_name(node), short_id(node.node()), node.address(), state_of(node, status.reachable()),
                    pair(node, "cpu"), pair(node, "gpu"), pair(node, "memory"),
                    size_pair(node.object_store_used_bytes(), node.object_store_capacity_bytes()), cat(node.workers()),
                    cat(node.drivers()), extras(node)});
  }
  return rows.size() == 1 ? "No nodes.\n" : table(rows);
}

std::string devices_text(const proto::StatusReply& status) {
  std::vector<std::vector<std::string>> rows = {
      {"GPU", "MODEL", "STATE", "FREE", "MEMORY used", "TEMPERATURE", "POWER"}};
  for (const proto::NodeInfo& node : status.nodes()) {
    for (const proto::Device& device : node.devices()) {
      std::string state = device.reason().empty() ? device.state() : cat(device.state(), " (", device.reason(), ")");
      rows.push_back({cat(node.hostname(), ":", device.index()), device.model(), state,
                      base::Amount{device.free_units()}.text(),
                      size_pair(device.memory_used_bytes(), device.memory_total_bytes()),
                      device.temperature_c() < 0 ? std::string("-") : cat(device.temperature_c(), " C"),
                      device.power_w() < 0 ? std::string("-") : cat(base::fixed(device.power_w(), 0), " W")});
    }
  }
  return rows.size() == 1 ? std::string() : cat("\n", table(rows));
}

std::string actors_text(const proto::StatusReply& status, base::WallTime now) {
  std::vector<std::string> counts;
  auto count = [&](int64_t number, const char* state) {
    if (number > 0) counts.push_back(cat(number, " ", state));
  };
  count(status.actors_alive(), "alive");
  count(status.actors_starting(), "starting");
  count(status.actors_pending(), "pending");
  count(status.actors_restarting(), "restarting");
  count(status.actors_dead(), "dead");
  std::string text = cat("\nActors: ", counts.empty() ? "none" : base::join(counts, ", "), "\n");
  std::map<uint64_t, std::string> hosts;
  for (const proto::NodeInfo& node : status.nodes()) hosts[node.node().high()] = node.hostname();
  std::vector<std::vector<std::string>> rows;
  for (const proto::ActorInfo& actor : status.named_actors()) {
    auto host = hosts.find(actor.address().node().high());
    std::string place = host == hosts.end() ? std::string() : cat("on ", host->second);
    rows.push_back(
        {cat("  ", actor.name()), actor.class_name(), rpc::actor_state_text(actor.state()), place,
         short_id(actor.actor()),
         actor.since_unix_us() > 0 ? base::format_duration(since(actor.since_unix_us(), now)) : std::string()});
  }
  return text + table(rows);
}

std::string pending_text(const proto::StatusReply& status) {
  if (status.pending().empty()) return {};
  std::string text = "\nWaiting:\n";
  for (const proto::PendingGroup& group : status.pending()) {
    auto waited =
        std::chrono::duration_cast<base::Duration>(std::chrono::duration<double>(group.oldest_waiting_seconds()));
    text += cat("  ", group.count(), " ", group.kind(), group.count() == 1 ? "" : "s", " ",
                printable(resources_text(group.resources())), " for ", base::format_duration(waited));
    if (!group.examples().empty()) text += cat("  (rayo why ", std::string_view(group.examples(0)).substr(0, 12), ")");
    text += "\n";
    for (const proto::Reason& reason : group.reasons()) {
      text += cat("    ", printable(reason.text().empty() ? reason.code() : reason.text()));
      if (reason.nodes() > 0) text += cat("  (", reason.nodes(), reason.nodes() == 1 ? " node)" : " nodes)");
      text += "\n";
    }
  }
  return text;
}

std::string events_text(const proto::StatusReply& status, base::WallTime now) {
  if (status.events().empty()) return {};
  std::vector<std::vector<std::string>> rows;
  for (int i = std::max(0, status.events_size() - kMostEvents); i < status.events_size(); ++i) {
    const proto::Event& event = status.events(i);
    rows.push_back({cat("  ", clock_text(event.at_unix_us(), now)), event.severity(), event.text()});
  }
  return cat("\nLast events:\n", table(rows));
}

}  // namespace

std::string short_id(const proto::Id& id) { return rpc::from_proto<NodeId>(id).hex().substr(0, 12); }

std::string clock_text(int64_t unix_us, base::WallTime now) {
  time_t then = unix_us / 1'000'000,
         today = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  tm then_parts{}, today_parts{};
  localtime_r(&then, &then_parts);
  localtime_r(&today, &today_parts);
  bool same_day = then_parts.tm_yday == today_parts.tm_yday && then_parts.tm_year == today_parts.tm_year;
  char text[32];
  std::strftime(text, sizeof text, same_day ? "%H:%M:%S" : "%Y-%m-%d %H:%M", &then_parts);
  return text;
}

std::string status_text(const proto::StatusReply& status, base::WallTime now) {
  return cat(heading(status, now), "\n", nodes_text(status), devices_text(status), actors_text(status, now),
             pending_text(status), events_text(status, now));
}

}  // namespace rayo::cli
