#include "runtime/cli/start_options.h"

#include <boost/json.hpp>
#include <charconv>
#include <cmath>
#include <set>

#include "runtime/base/programs.h"
#include "runtime/base/resources.h"
#include "runtime/base/text.h"
#include "runtime/base/units.h"

namespace rayo::cli {
namespace {

using base::cat;

base::Status wrong(std::string_view what, std::string_view next) {
  return base::failed(absl::StatusCode::kInvalidArgument, what, next);
}

using base::Amount;

constexpr int kMostDevices = 4096;  // more than any machine holds: a typo
// The smallest value that lies there has 100 KiB: 160 of them.
constexpr int64_t kLeastObjectStore = 16 << 20;

base::StatusOr<double> parse_amount(std::string_view flag, std::string_view text) {
  double number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  bool whole = error == std::errc() && end == text.data() + text.size();
  if (whole && number >= 0 && number <= Amount::kMost) return number;
  if (whole && number > Amount::kMost)
    return wrong(cat("cannot use ", flag, " '", text, "': it is more than ", Amount::kMost),
                 cat(flag, " 4 (fractions such as 0.5 are fine)"));
  return wrong(cat("cannot use ", flag, " '", text, "': it is not an amount"),
               cat(flag, " 4 (fractions such as 0.5 are fine)"));
}

base::StatusOr<int> parse_count(std::string_view flag, std::string_view text) {
  RAYO_ASSIGN_OR_RETURN(double number, parse_amount(flag, text));
  const bool whole = number == std::floor(number);
  if (whole && number <= kMostDevices) return static_cast<int>(number);
  return wrong(whole ? cat("cannot use ", flag, " '", text, "': it is more than ", kMostDevices)
                     : cat("cannot use ", flag, " '", text, "': devices are whole"),
               cat(flag, " 1"));
}

base::StatusOr<int64_t> parse_bytes(std::string_view flag, std::string_view text) {
  auto size = base::parse_size(text);
  if (!size.ok()) return base::within(size.status(), cat("cannot use ", flag));
  if (*size > Amount::kMostBytes)
    return wrong(cat("cannot use ", flag, " '", text, "': it is more than ", base::format_size(Amount::kMostBytes)),
                 cat("say what this machine has, such as ", flag, " 8GiB"));
  return *size;
}

base::StatusOr<int64_t> parse_object_store(std::string_view flag, std::string_view text) {
  RAYO_ASSIGN_OR_RETURN(int64_t size, parse_bytes(flag, text));
  if (size >= kLeastObjectStore) return size;
  return wrong(cat("cannot use ", flag, " '", text, "': it is less than ", base::format_size(kLeastObjectStore)),
               cat(flag, " 1GiB, or leave it out"));
}

// Of a JSON object whose values are numbers, so that each string in it is a key. The parser keeps the last of two alike.
std::string key_that_stands_twice(std::string_view object) {
  std::set<std::string> seen;
  for (size_t begin = object.find('"'); begin != std::string_view::npos;) {
    size_t end = begin + 1;
    while (object[end] != '"') end += object[end] == '\\' ? 2 : 1;
    const std::string_view quoted = object.substr(begin, end + 1 - begin);
    const boost::json::value key = boost::json::parse({quoted.data(), quoted.size()});
    if (!seen.insert(std::string(key.get_string().c_str())).second) return std::string(key.get_string().c_str());
    begin = object.find('"', end + 1);
  }
  return {};
}

base::StatusOr<std::string> parse_program(std::string_view flag, std::string_view text) {
  std::string found = base::find_program(text);
  if (!found.empty()) return found;
  return wrong(cat("cannot use ", flag, " '", text, "': there is no such program"), cat(flag, " /usr/bin/python3"));
}

template <class Value>
base::Status put(Value& target, base::StatusOr<Value> parsed) {
  if (!parsed.ok()) return parsed.status();
  target = std::move(*parsed);
  return {};
}

// The flags as texts.
struct Given {
  bool head = false, local = false, block = false, json = false;
  std::string address, name, resume, node_ip, interface, advertise, data_interface, token_file, config, owner_pid;
  std::optional<std::string> port, http_port, node_port, num_cpus, num_gpus, memory, object_store_memory, resources,
      labels, python;
};

void declare(Flags& flags, Given& given) {
  flags.on("--head", given.head, "start a new cluster with its head here");
  flags.text("--address", given.address, "HOST:PORT[,...]", "join the cluster of this head");
  flags.text("--port", given.port, "PORT", "of the head (6379; moves to a free one where that is taken; 0: any)");
  flags.text("--http-port", given.http_port, "PORT", "of the head's status pages (8265)");
  flags.text("--name", given.name, "NAME", "of the cluster");
  flags.on("--local", given.local, "loopback alone: no other machine can join");
  flags.text("--node-port", given.node_port, "PORT", "of this node (6380)");
  flags.text("--node-ip", given.node_ip, "IP", "the address to listen on and to publish");
  flags.text("--interface", given.interface, "IF", "the interface to listen on (that of the default route)");
  flags.text("--advertise", given.advertise, "HOST[:PORT]", "what others dial instead: NAT, containers");
  flags.text("--data-interface", given.data_interface, "IF", "a second interface for objects and calls");
  flags.text("--num-cpus", given.num_cpus, "X", "(what the machine and its cgroup allow)");
  flags.text("--num-gpus", given.num_gpus, "N", "(all that the driver lists)");
  flags.text("--memory", given.memory, "SIZE", "offered to actors and tasks, such as 8GiB");
  flags.text("--object-store-memory", given.object_store_memory, "SIZE", "(30 % of the memory)");
  flags.text("--resources", given.resources, "JSON", "own resources: '{\"tpu\": 2}'");
  flags.text("--labels", given.labels, "K=V,...", "to be placed by: zone=a,disk=ssd");
  flags.text("--python", given.python, "PATH", "runs Python's workers here (the driver's path, else python3)");
  flags.text("--token-file", given.token_file, "FILE",
             "the cluster's token (else RAYO_TOKEN, RAYO_TOKEN_FILE, or asked for)");
  flags.text("--config", given.config, "FILE", "settings, on the head (rayo.toml of the home)");
  flags.on("--block", given.block, "stay in the foreground; Ctrl-C stops");
  flags.on("--json", given.json, "tell the result as one JSON document");
  flags.hidden_text("--resume", given.resume);
  flags.hidden_text("--owner-pid", given.owner_pid);
}

base::Status check_together(const Given& given) {
  if (!given.resume.empty()) {
    return wrong("cannot start with --resume: it comes with a later version", "rayo start --head");
  }
  if (given.head == !given.address.empty()) {
    return wrong(given.head ? "cannot start: --head and --address exclude each other"
                            : "cannot start: say which: a new cluster or one to join",
                 "rayo start --head, or rayo start --address HOST:PORT");
  }
  if (!given.head && (given.port || given.http_port || !given.name.empty() || !given.config.empty())) {
    return wrong("cannot start: --port, --http-port, --name and --config belong to the head",
                 "leave them out, or rayo start --head");
  }
  if (!given.node_ip.empty() && !given.interface.empty()) {
    return wrong("cannot start: --node-ip and --interface exclude each other", "give one of them");
  }
  if (given.local && (!given.node_ip.empty() || !given.interface.empty() || !given.advertise.empty() ||
                      !given.data_interface.empty())) {
    return wrong("cannot start: --local is loopback alone, so no interface can be chosen", "leave --local out");
  }
  return {};
}

base::Status check_advertise(const std::string& text) {
  if (text.find(',') == std::string::npos && base::parse_host(text, 0).ok()) return {};
  return wrong(cat("cannot use --advertise '", text, "': it is not an address"), "--advertise HOST or HOST:PORT");
}

base::Status convert_amounts(const Given& given, StartOptions& options) {
  if (given.port) RAYO_RETURN_IF_ERROR(put(options.port, parse_port("--port", *given.port)));
  if (given.http_port) RAYO_RETURN_IF_ERROR(put(options.http_port, parse_port("--http-port", *given.http_port)));
  if (given.node_port) RAYO_RETURN_IF_ERROR(put(options.node_port, parse_port("--node-port", *given.node_port)));
  if (given.num_cpus) RAYO_RETURN_IF_ERROR(put(options.num_cpus, parse_amount("--num-cpus", *given.num_cpus)));
  if (given.num_gpus) RAYO_RETURN_IF_ERROR(put(options.num_gpus, parse_count("--num-gpus", *given.num_gpus)));
  if (given.memory) RAYO_RETURN_IF_ERROR(put(options.memory_bytes, parse_bytes("--memory", *given.memory)));
  if (given.object_store_memory) {
    RAYO_RETURN_IF_ERROR(
        put(options.object_store_bytes, parse_object_store("--object-store-memory", *given.object_store_memory)));
  }
  if (given.resources) RAYO_RETURN_IF_ERROR(put(options.resources, parse_resources(*given.resources)));
  if (given.labels) RAYO_RETURN_IF_ERROR(put(options.labels, parse_labels(*given.labels)));
  if (given.python) RAYO_RETURN_IF_ERROR(put(options.python, parse_program("--python", *given.python)));
  if (!given.owner_pid.empty()) {
    RAYO_ASSIGN_OR_RETURN(double pid, parse_amount("--owner-pid", given.owner_pid));
    options.owner_pid = static_cast<int>(pid);
  }
  return {};
}

base::StatusOr<StartOptions> convert(const Given& given) {
  RAYO_RETURN_IF_ERROR(check_together(given));
  StartOptions options;
  options.head = given.head;
  if (!given.address.empty()) RAYO_RETURN_IF_ERROR(put(options.addresses, base::parse_host_ports(given.address)));
  RAYO_RETURN_IF_ERROR(convert_amounts(given, options));
  if (!given.advertise.empty()) RAYO_RETURN_IF_ERROR(check_advertise(given.advertise));
  options.name = given.name;
  options.local = given.local;
  options.node_ip = given.node_ip;
  options.interface = given.interface;
  options.advertise = given.advertise;
  options.data_interface = given.data_interface;
  options.token_file = given.token_file;
  options.config_file = given.config;
  options.block = given.block;
  options.json = given.json;
  return options;
}

}  // namespace

std::string StartOptions::address_text() const {
  std::vector<std::string> texts;
  for (const base::HostPort& address : addresses) texts.push_back(address.text());
  return base::join(texts, ",");
}

base::StatusOr<PortWish> parse_port(std::string_view flag, std::string_view text) {
  int port = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error == std::errc() && end == text.data() + text.size() && port >= 0 && port <= 65535)
    return PortWish{port, port != 0};
  return wrong(cat("cannot use ", flag, " '", text, "': a port is a number from 0 to 65535"),
               cat(flag, " 0 takes any free one"));
}

base::StatusOr<std::vector<std::pair<std::string, double>>> parse_resources(std::string_view text) {
  namespace json = boost::json;
  json::error_code error;
  json::value value = json::parse({text.data(), text.size()}, error);
  constexpr std::string_view kExample = "--resources '{\"tpu\": 2}'";
  if (error) return wrong(cat("cannot use --resources '", text, "': it is not JSON (", error.message(), ")"), kExample);
  if (!value.is_object()) return wrong(cat("cannot use --resources '", text, "': it is not a JSON object"), kExample);
  std::vector<std::pair<std::string, double>> resources;
  for (const auto& member : value.get_object()) {
    std::string name(member.key().data(), member.key().size());
    auto amount = json::try_value_to<double>(member.value());
    if (!amount || !std::isfinite(*amount) || *amount < 0) {
      return wrong(cat("cannot use --resources: '", name, "' is not an amount"), kExample);
    }
    if (*amount > Amount::kMost)
      return wrong(cat("cannot use --resources: '", name, "' is more than ", Amount::kMost), kExample);
    if (name.empty() || name == "cpu" || name == "gpu" || name == "memory") {
      return wrong(cat("cannot use --resources: '", name, "' has a flag of its own"),
                   "--num-cpus, --num-gpus, --memory");
    }
    resources.emplace_back(std::move(name), *amount);
  }
  if (const std::string twice = key_that_stands_twice(text); !twice.empty())
    return wrong(cat("cannot use --resources: '", twice, "' stands there twice"), kExample);
  return resources;
}

base::StatusOr<std::vector<std::pair<std::string, std::string>>> parse_labels(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> labels;
  for (const std::string& piece : base::split(text, ',')) {
    size_t equals = piece.find('=');
    std::string key(base::trim(std::string_view(piece).substr(0, equals)));
    if (equals == std::string::npos || key.empty() || key.find(' ') != std::string::npos) {
      return wrong(cat("cannot use --labels: '", piece, "' is not KEY=VALUE"), "--labels zone=a,disk=ssd");
    }
    if (!base::is_utf8(piece))
      return wrong(cat("cannot use --labels: '", base::as_utf8(piece), "' is not UTF-8"), "--labels zone=a,disk=ssd");
    for (const auto& [known, value] : labels) {
      if (known == key)
        return wrong(cat("cannot use --labels: '", key, "' stands there twice"), "--labels zone=a,disk=ssd");
    }
    labels.emplace_back(std::move(key), base::trim(std::string_view(piece).substr(equals + 1)));
  }
  return labels;
}

StartRequest read_start(const Arguments& arguments, Terminal& terminal) {
  StartRequest request;
  Given given;
  Flags flags("start", "Start a cluster on this machine, or join one. Returns when it answers.");
  declare(flags, given);
  request.done = flags.read(arguments, terminal);
  if (request.done) return request;
  auto options = convert(given);
  if (options.ok()) {
    request.options = std::move(*options);
  } else {
    request.done = terminal.fail(options.status(), kWrongUse);
  }
  return request;
}

}  // namespace rayo::cli
