// Where a cluster's files on this machine lie, and how programs and commands find it without a flag.
//
//   $RAYO_HOME (default ~/.rayo, 0700)          sessions/NAME.json   pointer: {"schema": 1, "dir": "..."}
//                                               sessions/NAME.token  SECRET.FINGERPRINT, 0600
//   $RAYO_RUNTIME_DIR/NAME  (0700)              session.json         {"schema", "cluster", "name", "address", "http", "head", "machine"}
//     head/    settings.json  head.pid  keeper.pid  head.log  control.sock
//     node-K/  settings.json  raylet.pid  keeper.pid  raylet.log  raylet.sock  control.sock  workers/  packages/
//   state: /var/tmp/rayo-UID/NAME               control.db (head), certificates
//
// A pid file holds "PID START_TICKS BOOT_ID": a reused pid is no session of ours. Everything here is plain file reading and
// writing, done at start and at init, from any thread; no caching.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <rayo/id.h>

#include "runtime/base/status.h"

namespace rayo::base {

using Path = std::filesystem::path;

Path home_dir();     // $RAYO_HOME, else ~/.rayo
Path runtime_dir();  // $RAYO_RUNTIME_DIR, else /run/user/UID/rayo where /run/user/UID is ours, else /tmp/rayo-UID
Path state_dir();    // $RAYO_RUNTIME_DIR/state where that is set, else /var/tmp/rayo-UID

// This boot of this machine: equal for all processes of one machine (network namespaces and containers included).
std::string boot_id();

// The live process that a pid file names; nullopt where it is gone, was another, or before the last boot.
std::optional<pid_t> live_pid(const Path& pid_file);
Status write_pid_file(const Path& pid_file, pid_t pid);

// Creates the directory (0700, ours) with its parents; an error names what stands in the way.
Status make_private_dir(const Path& dir);
// Writes a file in one step (temporary + rename), mode 0600.
Status write_private_file(const Path& file, std::string_view content);
StatusOr<std::string> read_file(const Path& file);

struct NodeFiles {
  Path dir;
  int number = 0;
  Path settings() const { return dir / "settings.json"; }
  Path raylet_pid() const { return dir / "raylet.pid"; }
  Path keeper_pid() const { return dir / "keeper.pid"; }
  Path log() const { return dir / "raylet.log"; }
  Path raylet_socket() const { return dir / "raylet.sock"; }    // frames: workers and drivers
  Path control_socket() const { return dir / "control.sock"; }  // gRPC: CLI
  bool live() const { return live_pid(raylet_pid()).has_value(); }
};

struct HeadFiles {
  Path dir;
  Path settings() const { return dir / "settings.json"; }
  Path head_pid() const { return dir / "head.pid"; }
  Path keeper_pid() const { return dir / "keeper.pid"; }
  Path log() const { return dir / "head.log"; }
  Path control_socket() const { return dir / "control.sock"; }
};

struct Session {
  std::string name;
  Path dir;
  std::string cluster;       // hex; "" until the head has told it
  std::string cluster_name;
  std::string address;       // of the head, as published
  std::string http;          // "" where this machine has no head
  bool has_head = false;     // the head runs (or ran) on this machine
  std::string machine;       // boot id at its start
  std::vector<NodeFiles> nodes;

  HeadFiles head() const { return {dir / "head"}; }
  Path token_file() const;   // in the home
  bool live() const;         // the head's or a raylet's or a keeper's pid file names a live process
  bool rebooted() const { return !machine.empty() && machine != boot_id(); }
};

// A new session's directories and pointer. `preferred` may be empty: then a random name.
StatusOr<Session> create_session(std::string_view preferred);
// Rewrites session.json.
Status save_session(const Session& session);
// The next node-K directory of a session.
StatusOr<NodeFiles> add_node(Session& session);
// Every session that the home points to, dead ones included.
std::vector<Session> sessions_of_home();
// Removes directory, pointer and token of a session that is not live.
void remove_session(const Session& session);

// The one live session that `address` means ("" : the only one of the home). An address is HOST:PORT[,HOST:PORT...]; on the
// cluster's own machine any local address with the head's port finds it. NotFound: none; FailedPrecondition: several, listed.
StatusOr<Session> find_session(std::string_view address);

// ---- what `rayo start` hands to the daemons: settings.json, read once at start ----

struct Binding {
  std::string host;        // the address to listen on and to publish; loopback is always listened on too
  int port = 0;
  bool port_fixed = false; // asked for by number, or --resume: taken is an error; else it moves to a free one
  std::string advertise;   // HOST[:PORT] told to others instead; may be empty
  std::string data_host;   // of --data-interface; may be empty
};

struct HeadSettings {
  Path session_dir;
  Path state_dir;
  Path token_file;
  std::string name;
  Binding bind;
  int http_port = 8265;
  bool http_port_fixed = false;
  bool local = false;      // loopback alone
  Path config_file;        // rayo.toml, may be empty
};

struct RayletSettings {
  Path session_dir;
  Path node_dir;
  Path token_file;
  std::vector<std::string> head_addresses;
  Binding bind;
  bool local = false;
  bool with_head = false;              // stands beside the head
  double num_cpus = -1;                // -1: what the machine and its cgroup allow
  int num_gpus = -1;                   // -1: all that NVML lists
  int64_t memory_bytes = -1;
  int64_t object_store_bytes = -1;
  std::vector<std::pair<std::string, double>> resources;
  std::vector<std::pair<std::string, std::string>> labels;
  int owner_pid = 0;                   // > 0: a --local cluster that ends with this program
};

StatusOr<HeadSettings> read_head_settings(const Path& file);
StatusOr<RayletSettings> read_raylet_settings(const Path& file);
Status write_settings(const Path& file, const HeadSettings& settings);
Status write_settings(const Path& file, const RayletSettings& settings);

// What a daemon says once on the pipe of --ready-fd: that it answers on `address`, or why it ends.
struct Readiness {
  bool ok = false;
  std::string address;   // as published
  std::string http;      // head
  std::string cluster;   // hex
  std::string cluster_name;
  std::string node;      // hex, raylet
  int exit_code = 1;     // contract.md: 1 failed, 2 wrong use, 3 not reachable, 4 refused, 5 timed out
  std::string error;     // "WHAT: CAUSE"
  std::string next_step;
  std::vector<std::string> notes;  // such as "port 6379 is taken by nginx (pid 12): using 6401"
};
void tell_ready(int fd, const Readiness& readiness);   // writes one JSON line and closes fd
StatusOr<Readiness> read_ready(std::string_view line);

}  // namespace rayo::base
