// What `rayo start` was asked for, read and checked before anything is touched.
//
// Programs that start a cluster of their own (rayo::init without one) run
//     rayo start --head --local --owner-pid PID --json
// which prints one document {"schema", "name", "session_dir", "node_dir", "address", "http", "cluster",
// "node"}; that cluster ends with the process PID and is found by nobody else.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/address.h"
#include "runtime/base/status.h"
#include "runtime/cli/flags.h"

namespace rayo::cli {

constexpr int kHeadPort = 6379;
constexpr int kNodePort = 6380;
constexpr int kHttpPort = 8265;

struct PortWish {
  int number = 0;
  bool fixed = false;  // asked for by number: taken is an error
};

struct StartOptions {
  bool head = false;
  std::vector<base::HostPort> addresses;  // of the heads to join
  std::string name;
  PortWish port{kHeadPort};
  PortWish http_port{kHttpPort};
  PortWish node_port{kNodePort};
  bool local = false;
  std::string node_ip;
  std::string interface;
  std::string advertise;  // HOST[:PORT]
  std::string data_interface;
  double num_cpus = -1;  // these four: -1 where not given
  int num_gpus = -1;
  int64_t memory_bytes = -1;
  int64_t object_store_bytes = -1;
  std::vector<std::pair<std::string, double>> resources;
  std::vector<std::pair<std::string, std::string>> labels;
  std::string python;  // absolute
  std::string token_file;
  std::string config_file;
  bool block = false;
  bool json = false;
  int owner_pid = 0;

  std::string address_text() const;  // "A:1,B:2"
};

// Reads the flags: options, or the exit code (help was printed, or the error was).
struct StartRequest {
  std::optional<int> done;
  StartOptions options;
};
StartRequest read_start(const Arguments& arguments, Terminal& terminal);

// The parts, for tests. InvalidArgument with how to write it.
base::StatusOr<PortWish> parse_port(std::string_view flag, std::string_view text);
base::StatusOr<std::vector<std::pair<std::string, double>>> parse_resources(std::string_view json);
base::StatusOr<std::vector<std::pair<std::string, std::string>>> parse_labels(std::string_view text);

}  // namespace rayo::cli
