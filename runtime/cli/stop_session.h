// Ending a session of this machine, or one node of it, so that nothing is left: no process, socket, shared
// memory or file.
#pragma once

#include "runtime/base/clock.h"
#include "runtime/base/session.h"
#include "runtime/cli/terminal.h"

namespace rayo::cli {

constexpr base::Duration kStopGrace = std::chrono::seconds(10);  // what actors get to end in good order

// Something of it lives on this machine, whether or not its files are still there.
bool runs_here(const base::Session& session);

// Where its head is here, the cluster's other nodes are told first; what could not be told is listed (exit
// 1). Returns the exit code.
int stop_session(const base::Session& session, base::Duration grace, Terminal& terminal);

// Ends one node; the session goes with the last of it.
int stop_node(const base::Session& session, const base::NodeFiles& node, base::Duration grace, Terminal& terminal);

}  // namespace rayo::cli
