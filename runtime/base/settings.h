// What `rayo start` hands to the daemons (settings.json, read once at start) and what they say back on the pipe of
// --ready-fd.
//
//   rayo-keeper --pid-file DIR/keeper.pid --ready-fd 3 -- rayo-head --settings DIR/settings.json     DIR: SESSION/head
//   rayo-keeper --pid-file DIR/keeper.pid --ready-fd 3 -- rayo-raylet --settings DIR/settings.json   DIR: SESSION/node-K
//
// in a session of their own (setsid), stdin from /dev/null, stdout and stderr to the daemon's log. The daemon writes
// its own pid file before it says that it is ready, and ends in good order on SIGTERM.
//
//   auto settings = read_head_settings(argv_settings);      // in rayo-head --settings FILE --ready-fd N
//   ... listen, open the store ...
//   tell_ready(ready_fd, {.ok = true, .address = "10.0.0.5:6379", .http = "http://127.0.0.1:8265", ...});
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/private_file.h"

namespace rayo::base {

struct Binding {
  std::string host;         // the address to listen on and to publish; loopback is always listened on too
  int port = 0;             // 0: any free one
  bool port_fixed = false;  // asked for by number, or --resume: taken is an error; else it moves to a free one
  std::string advertise;    // HOST[:PORT] told to others instead; may be empty
  std::string data_host;    // of --data-interface; may be empty
};

struct HeadSettings {
  Path session_dir;
  Path state_dir;
  Path token_file;
  std::string name;
  Binding bind;
  int http_port = 8265;
  bool http_port_fixed = false;
  bool local = false;  // loopback alone
  Path config_file;    // rayo.toml, may be empty
  int owner_pid = 0;   // > 0: a cluster that belongs to this program and ends with it
};

struct RayletSettings {
  Path session_dir;
  Path node_dir;
  Path token_file;
  std::vector<std::string> head_addresses;
  Binding bind;
  bool local = false;
  bool with_head = false;  // stands beside the head
  double num_cpus = -1;    // -1: what the machine and its cgroup allow
  int num_gpus = -1;       // -1: all that NVML lists
  int64_t memory_bytes = -1;
  int64_t object_store_bytes = -1;
  std::vector<std::pair<std::string, double>> resources;
  std::vector<std::pair<std::string, std::string>> labels;
  std::string python;  // runs Python's workers; "": the driver's, or that of PATH
  int owner_pid = 0;
};

// InvalidArgument names the file and the member that is missing or of another type.
StatusOr<HeadSettings> read_head_settings(const Path& file);
StatusOr<RayletSettings> read_raylet_settings(const Path& file);
Status write_settings(const Path& file, const HeadSettings& settings);
Status write_settings(const Path& file, const RayletSettings& settings);

// What a daemon says once: that it answers on `address`, or why it ends.
struct Readiness {
  bool ok = false;
  std::string address;       // as published
  std::string listen;        // what it really listens on, where --advertise makes that another one; else empty
  std::string data_address;  // raylet with --data-interface: as published for frames and objects
  std::string http;          // head: the URL
  std::string cluster;       // hex
  std::string cluster_name;
  std::string node;   // hex, raylet
  int exit_code = 1;  // docs/errors.md: 1 failed, 2 wrong use, 3 not reachable, 4 refused, 5 timed out
  std::string error;  // "WHAT: CAUSE"
  std::string next_step;
  std::vector<std::string> notes;  // such as "port 6379 is taken by nginx (pid 12): using 6401"
};
// Writes one JSON line and closes fd; a reader that has gone is not an error (the daemon must block SIGPIPE or ignore
// it).
void tell_ready(int fd, const Readiness& readiness);
StatusOr<Readiness> read_ready(std::string_view line);

}  // namespace rayo::base
