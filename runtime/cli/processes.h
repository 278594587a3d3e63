// The processes of a session on this machine, named by its pid files, or by their command lines where those are gone, and
// their end.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/session.h"

namespace rayo::cli {

// One keeper and its daemon; a pid of 0 is gone already.
struct DaemonProcesses {
  std::string what;  // "head", "node 2"
  pid_t keeper = 0;
  pid_t daemon = 0;
};

// Those of which something lives: nodes first, the head last (the nodes' last words still reach it).
std::vector<DaemonProcesses> live_daemons(const base::Session& session);
std::vector<DaemonProcesses> live_daemons(const base::NodeFiles& node);

// Those of the session's directory that no pid file names any more: somebody removed the directory, or a part of it, under
// them. Ours alone: of this user, and of this mount namespace (a container may have a directory of the same name).
std::vector<DaemonProcesses> lost_daemons(const base::Session& session);

// SIGTERM to each, then waits; what is left after `grace` is ended with its whole tree by SIGKILL. Returns
// the names of those that had to be killed. Nothing of them is alive afterwards, short of a process that
// hangs inside the kernel.
std::vector<std::string> end_daemons(const std::vector<DaemonProcesses>& daemons, base::Duration grace);

// A process and everything below it, from /proc.
std::vector<pid_t> tree_of(pid_t root);

}  // namespace rayo::cli
