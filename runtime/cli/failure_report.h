// Failures and deaths that came over a wire, as a command tells them.
#pragma once

#include <string>

#include "runtime/cli/terminal.h"
#include "runtime/proto/common.pb.h"

namespace rayo::cli {

// Two lines and the exit code that fits the kind.
int fail(const proto::Failure& failure, Terminal& terminal);

// "  died at 10:32:05 on node 4f2a..., pid 12: signal 11\n    its last lines ...".
std::string death_text(const proto::DeathRecord& death);

}  // namespace rayo::cli
