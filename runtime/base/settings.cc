#include "runtime/base/settings.h"

#include <boost/json.hpp>
#include <cerrno>
#include <unistd.h>

#include "runtime/base/text.h"

namespace rayo::base {
namespace {

namespace json = boost::json;

json::object to_json(const Binding& bind) {
  return {{"host", bind.host},
          {"port", bind.port},
          {"port_fixed", bind.port_fixed},
          {"advertise", bind.advertise},
          {"data_host", bind.data_host}};
}

// Takes members out of an object; the first that is missing or of another type is kept as the error.
class Members {
 public:
  explicit Members(const json::object& object) : object_(object) {}

  template <class Value>
  void take(std::string_view name, Value& value) {
    const json::value* found = object_.if_contains({name.data(), name.size()});
    auto converted = found ? json::try_value_to<Value>(*found) : json::result<Value>(json::error::not_found);
    if (converted) {
      value = std::move(*converted);
    } else if (wrong_.empty()) {
      wrong_ = name;
    }
  }
  void take(std::string_view name, Path& value) {
    std::string text;
    take(name, text);
    value = text;
  }
  void take(std::string_view name, Binding& value) {
    const json::value* found = object_.if_contains({name.data(), name.size()});
    if (!found || !found->is_object()) {
      if (wrong_.empty()) wrong_ = name;
      return;
    }
    Members inner(found->get_object());
    inner.take("host", value.host);
    inner.take("port", value.port);
    inner.take("port_fixed", value.port_fixed);
    inner.take("advertise", value.advertise);
    inner.take("data_host", value.data_host);
    if (wrong_.empty()) wrong_ = inner.wrong_;
  }

  Status status(std::string_view where) const {
    if (wrong_.empty()) return {};
    return failed(absl::StatusCode::kInvalidArgument,
                  cat("cannot read ", where, ": '", wrong_, "' is missing or of another type"),
                  "start again: rayo start");
  }

 private:
  const json::object& object_;
  std::string wrong_;
};

StatusOr<json::object> parse_object(std::string_view text, std::string_view where) {
  json::error_code error;
  // A path may hold any bytes.
  json::value value = json::parse({text.data(), text.size()}, error, {}, {.allow_invalid_utf8 = true});
  if (!error && value.is_object()) return std::move(value.get_object());
  return failed(absl::StatusCode::kInvalidArgument, cat("cannot read ", where, ": it is not a JSON object"),
                "start again: rayo start");
}

StatusOr<json::object> read_object(const Path& file) {
  RAYO_ASSIGN_OR_RETURN(std::string text, read_file(file));
  return parse_object(text, file.string());
}

}  // namespace

StatusOr<HeadSettings> read_head_settings(const Path& file) {
  RAYO_ASSIGN_OR_RETURN(json::object object, read_object(file));
  HeadSettings settings;
  Members members(object);
  members.take("session_dir", settings.session_dir);
  members.take("state_dir", settings.state_dir);
  members.take("token_file", settings.token_file);
  members.take("name", settings.name);
  members.take("bind", settings.bind);
  members.take("http_port", settings.http_port);
  members.take("http_port_fixed", settings.http_port_fixed);
  members.take("local", settings.local);
  members.take("config_file", settings.config_file);
  members.take("owner_pid", settings.owner_pid);
  RAYO_RETURN_IF_ERROR(members.status(file.string()));
  return settings;
}

StatusOr<RayletSettings> read_raylet_settings(const Path& file) {
  RAYO_ASSIGN_OR_RETURN(json::object object, read_object(file));
  RayletSettings settings;
  Members members(object);
  members.take("session_dir", settings.session_dir);
  members.take("node_dir", settings.node_dir);
  members.take("token_file", settings.token_file);
  members.take("head_addresses", settings.head_addresses);
  members.take("bind", settings.bind);
  members.take("local", settings.local);
  members.take("with_head", settings.with_head);
  members.take("num_cpus", settings.num_cpus);
  members.take("num_gpus", settings.num_gpus);
  members.take("memory_bytes", settings.memory_bytes);
  members.take("object_store_bytes", settings.object_store_bytes);
  members.take("resources", settings.resources);
  members.take("labels", settings.labels);
  members.take("python", settings.python);
  members.take("owner_pid", settings.owner_pid);
  RAYO_RETURN_IF_ERROR(members.status(file.string()));
  return settings;
}

Status write_settings(const Path& file, const HeadSettings& settings) {
  json::object object{{"session_dir", settings.session_dir.string()},
                      {"state_dir", settings.state_dir.string()},
                      {"token_file", settings.token_file.string()},
                      {"name", settings.name},
                      {"bind", to_json(settings.bind)},
                      {"http_port", settings.http_port},
                      {"http_port_fixed", settings.http_port_fixed},
                      {"local", settings.local},
                      {"config_file", settings.config_file.string()},
                      {"owner_pid", settings.owner_pid}};
  return write_private_file(file, json::serialize(object) + "\n");
}

Status write_settings(const Path& file, const RayletSettings& settings) {
  json::object object{{"session_dir", settings.session_dir.string()},
                      {"node_dir", settings.node_dir.string()},
                      {"token_file", settings.token_file.string()},
                      {"head_addresses", json::value_from(settings.head_addresses)},
                      {"bind", to_json(settings.bind)},
                      {"local", settings.local},
                      {"with_head", settings.with_head},
                      {"num_cpus", settings.num_cpus},
                      {"num_gpus", settings.num_gpus},
                      {"memory_bytes", settings.memory_bytes},
                      {"object_store_bytes", settings.object_store_bytes},
                      {"resources", json::value_from(settings.resources)},
                      {"labels", json::value_from(settings.labels)},
                      {"python", settings.python},
                      {"owner_pid", settings.owner_pid}};
  return write_private_file(file, json::serialize(object) + "\n");
}

void tell_ready(int fd, const Readiness& readiness) {
  json::object object{{"ok", readiness.ok},
                      {"address", readiness.address},
                      {"listen", readiness.listen},
                      {"data_address", readiness.data_address},
                      {"http", readiness.http},
                      {"cluster", readiness.cluster},
                      {"cluster_name", readiness.cluster_name},
                      {"node", readiness.node},
                      {"exit_code", readiness.exit_code},
                      {"error", readiness.error},
                      {"next_step", readiness.next_step},
                      {"notes", json::value_from(readiness.notes)}};
  std::string line = json::serialize(object) + "\n";
  std::string_view rest = line;
  while (!rest.empty()) {
    ssize_t written = ::write(fd, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) break;
    rest.remove_prefix(static_cast<size_t>(written));
  }
  ::close(fd);
}

StatusOr<Readiness> read_ready(std::string_view line) {
  RAYO_ASSIGN_OR_RETURN(json::object object, parse_object(line, "what the daemon said at its start"));
  Readiness readiness;
  Members members(object);
  members.take("ok", readiness.ok);
  members.take("address", readiness.address);
  members.take("listen", readiness.listen);
  members.take("data_address", readiness.data_address);
  members.take("http", readiness.http);
  members.take("cluster", readiness.cluster);
  members.take("cluster_name", readiness.cluster_name);
  members.take("node", readiness.node);
  members.take("exit_code", readiness.exit_code);
  members.take("error", readiness.error);
  members.take("next_step", readiness.next_step);
  members.take("notes", readiness.notes);
  RAYO_RETURN_IF_ERROR(members.status("what the daemon said at its start"));
  return readiness;
}

}  // namespace rayo::base
