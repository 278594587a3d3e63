#include "runtime/cli/list_items.h"

#include <array>

#include "runtime/base/clock.h"
#include "runtime/base/text.h"
#include "runtime/cli/status_text.h"
#include "runtime/cli/terminal.h"
#include "runtime/rpc/proto_ids.h"
#include "runtime/rpc/status_json.h"

namespace rayo::cli {
namespace {

namespace json = boost::json;
using base::cat;

// null rather than 32 zeros where there is none.
json::value id_json(const proto::Id& id) {
  auto known = rpc::from_proto<ProcessId>(id);
  return known ? json::value(known.hex()) : json::value(nullptr);
}

json::value time_json(int64_t unix_us) {
  return unix_us > 0 ? json::value(static_cast<double>(unix_us) / 1e6) : json::value(nullptr);
}

json::value death_or_null(bool has, const proto::DeathRecord& death) {
  return has ? rpc::death_json(death) : json::value(nullptr);
}

json::object worker_json(const proto::WorkerInfo& worker) {
  return {{"id", id_json(worker.process())},
          {"node", id_json(worker.node())},
          {"pid", worker.pid()},
          {"kind", worker.kind()},
          {"state", worker.state()},
          {"what", worker.what()},
          {"actor", id_json(worker.actor())},
          {"job", id_json(worker.job())},
          {"started_at", time_json(worker.started_at_unix_us())},
          {"log", worker.log()},
          {"death", death_or_null(worker.has_death(), worker.death())}};
}

json::object actor_json(const proto::ActorInfo& actor) {
  return {{"id", id_json(actor.actor())},
          {"class", actor.class_name()},
          {"name", actor.name()},
          {"namespace", actor.namespace_()},
          {"state", rpc::actor_state_text(actor.state())},
          {"incarnation", actor.incarnation()},
          {"restarts", actor.restarts()},
          {"max_restarts", actor.max_restarts()},
          {"detached", actor.detached()},
          {"node", id_json(actor.address().node())},
          {"pid", actor.pid()},
          {"job", id_json(actor.job())},
          {"resources", rpc::amounts_json(actor.resources())},
          {"since", time_json(actor.since_unix_us())},
          {"reasons", rpc::reasons_json(actor.reasons())},
          {"death", death_or_null(actor.has_death(), actor.death())}};
}

json::object job_json(const proto::JobInfo& job) {
  json::array arguments;
  for (const std::string& argument : job.arguments()) arguments.emplace_back(argument);
  return {{"id", id_json(job.job())},
          {"state", job.state()},
          {"program", job.program()},
          {"arguments", std::move(arguments)},
          {"namespace", job.namespace_()},
          {"node", id_json(job.node())},
          {"pid", job.pid()},
          {"parent", id_json(job.parent())},
          {"started_at", time_json(job.started_at_unix_us())},
          {"ended_at", time_json(job.ended_at_unix_us())},
          {"death", death_or_null(job.has_death(), job.death())}};
}

json::object task_json(const proto::TaskInfo& task) {
  const bool constructor = task.call().counter() == 0;  // has no result: its actor stands for it
  return {{"id", constructor ? id_json(task.actor()) : json::value(rpc::from_proto(task.call()).hex())},
          {"attempt", task.attempt()},
          {"type", task.type()},
          {"name", task.name()},
          {"state", task.state()},
          {"actor", id_json(task.actor())},
          {"job", id_json(task.job())},
          {"caller", id_json(task.caller())},
          {"caller_pid", task.caller_pid()},
          {"caller_node", id_json(task.caller_node())},
          {"worker", id_json(task.process())},
          {"pid", task.pid()},
          {"node", id_json(task.node())},
          {"submitted_at", time_json(task.submitted_at_unix_us())},
          {"started_at", time_json(task.started_at_unix_us())},
          {"ended_at", time_json(task.ended_at_unix_us())}};
}

json::object object_json(const proto::ObjectInfo& object) {
  json::array nodes;
  for (const proto::Id& node : object.copies()) nodes.push_back(id_json(node));
  return {{"id", rpc::from_proto(object.object()).hex()},
          {"state", object.state()},
          {"size_bytes", object.size_bytes()},
          {"home", id_json(object.home())},
          {"nodes", std::move(nodes)},
          {"references", object.references()},
          {"pins", object.pins()},
          {"maker", id_json(object.maker())},
          {"maker_pid", object.maker_pid()},
          {"failure", object.failure()}};
}

const json::value* look_up(const json::object& item, std::string_view path) {
  const json::object* object = &item;
  for (;;) {
    size_t dot = path.find('.');
    std::string_view key = path.substr(0, dot);
    const json::value* found = object->if_contains({key.data(), key.size()});
    if (!found || dot == std::string_view::npos) return found;
    if (!found->is_object()) return nullptr;
    object = &found->get_object();
    path.remove_prefix(dot + 1);
  }
}

std::string plain(const json::value& value) {
  if (value.is_string()) return std::string(value.get_string().c_str());
  if (value.is_null()) return "";
  if (value.is_double()) return cat(value.get_double());  // 2, not 2E0
  return json::serialize(value);
}

struct Column {
  std::string_view title;
  std::string_view path;
};

std::vector<Column> columns_of(std::string_view what) {
  if (what == "nodes") {
    return {{"ID", "id"},
            {"HOST", "hostname"},
            {"ADDRESS", "address"},
            {"STATE", "state"},
            {"HEAD", "head"},
            {"CPU free", "resources.cpu.free"},
            {"GPU free", "resources.gpu.free"},
            {"WORKERS", "workers"},
            {"DRIVERS", "drivers"},
            {"", "death.text"}};
  }
  if (what == "workers") {
    return {{"ID", "id"},       {"NODE", "node"},        {"PID", "pid"},   {"KIND", "kind"},
            {"STATE", "state"}, {"SINCE", "started_at"}, {"WHAT", "what"}, {"", "death.text"}};
  }
  if (what == "actors") {
    return {{"ID", "id"},
            {"CLASS", "class"},
            {"NAME", "name"},
            {"DETACHED", "detached"},
            {"STATE", "state"},
            {"NODE", "node"},
            {"PID", "pid"},
            {"SINCE", "since"},
            {"RESTARTS", "restarts"},
            {"LAST DEATH", "death.text"}};
  }
  if (what == "tasks") {
    return {{"ID", "id"},
            {"TYPE", "type"},
            {"NAME", "name"},
            {"STATE", "state"},
            {"CALLER", "caller"},
            {"NODE", "node"},
            {"WORKER PID", "pid"},
            {"SUBMITTED", "submitted_at"},
            {"STARTED", "started_at"},
            {"ENDED", "ended_at"}};
  }
  if (what == "objects") {
    return {{"ID", "id"},     {"STATE", "state"},         {"BYTES", "size_bytes"},
            {"HOME", "home"}, {"NODES", "nodes"},         {"REFERENCES", "references"},
            {"PINS", "pins"}, {"MAKER PID", "maker_pid"}, {"", "failure"}};
  }
  return {{"ID", "id"},   {"STATE", "state"},        {"PROGRAM", "program"}, {"NODE", "node"},
          {"PID", "pid"}, {"STARTED", "started_at"}, {"ENDED", "ended_at"},  {"", "death.text"}};
}

constexpr size_t kIdDigits = 32;

std::string json_list(const json::array& ids) {
  std::vector<std::string> parts;
  for (const json::value& id : ids) parts.push_back(plain(id).substr(0, 12));
  return base::join(parts, " ");
}

std::string cell(const json::object& item, std::string_view path) {
  const json::value* value = look_up(item, path);
  if (!value || value->is_null()) return "";
  if (path == "nodes") return json_list(value->get_array());
  if (path == "pid" && *value == 0) return "";  // nobody is known to have run it
  const bool is_id = path == "id" || path == "node" || path == "home" || path == "caller";
  // What is left of an object's first digits is its node alone.
  if (is_id && value->is_string() && value->get_string().size() == kIdDigits) return plain(*value).substr(0, 12);
  bool is_time = path == "since" || path.ends_with("_at");
  if (is_time) return clock_text(static_cast<int64_t>(value->to_number<double>() * 1e6), base::system_clock().wall());
  return plain(*value);
}

}  // namespace

json::array list_items(std::string_view what, const proto::ListReply& reply) {
  json::array items;
  if (what == "nodes") {
    for (const auto& node : reply.nodes()) items.push_back(rpc::node_json(node));
  } else if (what == "workers") {
    for (const auto& worker : reply.workers()) items.push_back(worker_json(worker));
  } else if (what == "actors") {
    for (const auto& actor : reply.actors()) items.push_back(actor_json(actor));
  } else if (what == "tasks") {
    for (const auto& task : reply.tasks()) items.push_back(task_json(task));
  } else if (what == "objects") {
    for (const auto& object : reply.objects()) items.push_back(object_json(object));
  } else {
    for (const auto& job : reply.jobs()) items.push_back(job_json(job));
  }
  return items;
}

base::StatusOr<json::array> filter_items(json::array items, const std::vector<std::string>& filters) {
  for (const std::string& filter : filters) {
    size_t equals = filter.find('=');
    if (equals == std::string::npos || equals == 0) {
      return base::failed(absl::StatusCode::kInvalidArgument,
                          cat("cannot use --filter '", filter, "': it is not KEY=VALUE"), "--filter state=alive");
    }
    std::string key = filter.substr(0, equals), wanted = filter.substr(equals + 1);
    json::array kept;
    bool known = items.empty();
    for (json::value& item : items) {
      const json::value* value = look_up(item.get_object(), key);
      known = known || value;
      if (value && plain(*value) == wanted) kept.push_back(std::move(item));
    }
    if (!known) {
      return base::failed(absl::StatusCode::kInvalidArgument, cat("cannot use --filter: no item has '", key, "'"),
                          "rayo list ... --json shows the keys");
    }
    items = std::move(kept);
  }
  return items;
}

std::string list_text(std::string_view what, const json::array& items) {
  if (items.empty()) return cat("No ", what, ".\n");
  std::vector<std::vector<std::string>> rows(1);
  std::vector<Column> columns = columns_of(what);
  for (const Column& column : columns) rows[0].emplace_back(column.title);
  for (const json::value& item : items) {
    std::vector<std::string> row;
    for (const Column& column : columns) row.push_back(cell(item.get_object(), column.path));
    rows.push_back(std::move(row));
  }
  return table(rows);
}

}  // namespace rayo::cli
