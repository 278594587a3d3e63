// Where a cluster's files on this machine lie, and how programs and commands find it without a flag.
//
//   $RAYO_HOME (default ~/.rayo, 0700)          sessions/NAME.json   {"schema", "name", "dir", "address", ...}
//                                               sessions/NAME.token  SECRET.FINGERPRINT, 0600
//   $RAYO_RUNTIME_DIR/NAME  (0700)              session.json         the same; starter.pid during `rayo start`
//     head/    settings.json  head.pid  keeper.pid  head.log  control.sock
//     node-K/  settings.json  raylet.pid  keeper.pid  raylet.log  raylet.sock  control.sock  workers/  packages/
//   state: /var/tmp/rayo-UID/NAME               control.db (head), certificates
//
// A pid file holds "PID START_TICKS BOOT_ID": a reused pid is no session of ours. Everything here is plain file reading
// and writing (and name look-ups in find_session), done at start and at init, from any thread; no caching.
//
//   auto session = find_session(std::getenv("RAYO_ADDRESS") ? std::getenv("RAYO_ADDRESS") : "");
//   if (session.ok() && session->local_raylet()) connect(session->local_raylet()->raylet_socket());
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/pid_file.h"
#include "runtime/base/private_file.h"
#include "runtime/base/settings.h"
#include "runtime/base/status.h"

namespace rayo::base {

// The variable RAYO_TOKEN=...: whoever is started by us inherits the environment without it, and so does not show it in
// /proc/PID/environ for as long as it lives.
bool holds_token(std::string_view variable);

Path home_dir();     // $RAYO_HOME, else ~/.rayo ($HOME, else of the user database)
Path config_file();  // rayo.toml of the home; "" where there is none
Path runtime_dir();  // $RAYO_RUNTIME_DIR, else /run/user/UID/rayo where /run/user/UID is ours, else /tmp/rayo-UID
Path state_dir();    // $RAYO_RUNTIME_DIR/state where that is set, else /var/tmp/rayo-UID

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
  Path state;           // databases and certificates
  std::string cluster;  // hex; "" until the head has told it
  std::string cluster_name;
  std::string address;    // of the head, as published
  std::string listen;     // where the head on this machine listens, where --advertise publishes another one; else ""
  std::string http;       // "" where this machine has no head
  bool has_head = false;  // the head runs (or ran) on this machine
  std::string machine;    // boot id at its start
  int owner_pid = 0;      // > 0: belongs to that program alone; find_session("") passes it by
  std::vector<NodeFiles> nodes;

  // Where this machine reaches the head: what is published may work from outside alone.
  const std::string& reach() const { return listen.empty() ? address : listen; }
  HeadFiles head() const { return {dir / "head"}; }
  Path token_file() const;  // in the home
  Path starter_pid() const { return dir / "starter.pid"; }
  // The first live raylet of this session on this machine; nullptr where none is.
  const NodeFiles* local_raylet() const;
  bool live() const;  // a pid file of its head, a raylet, a keeper or its starter names a live process
  bool rebooted() const { return !machine.empty() && machine != boot_id(); }
};

// A new session's directories and pointer. `preferred` may be empty: then a random name. AlreadyExists where a live
// session has that name; the leftovers of a dead one are cleared. Refuses network file systems and paths too long for a
// unix socket.
StatusOr<Session> create_session(std::string_view preferred, int owner_pid = 0);
// Rewrites session.json.
Status save_session(const Session& session);
// The next node-K directory of a session.
StatusOr<NodeFiles> add_node(Session& session);
// Every session that the home points to, dead ones included.
std::vector<Session> sessions_of_home();
// Removes directory, state, pointer and token of a session; a live one is left as it is.
void remove_session(const Session& session);

// The one live session that `address` means ("" : the only one of the home). An address is HOST:PORT[,HOST:PORT...]; on
// the cluster's own machine any local address with the head's port finds it, and so does a name that resolves to one.
// NotFound: none (a cluster that ended with a reboot is named); FailedPrecondition: several, listed; InvalidArgument:
// not an address.
StatusOr<Session> find_session(std::string_view address);

}  // namespace rayo::base
