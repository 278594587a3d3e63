// A daemon's log: one line an event, with time, level and the daemon's name; to stderr, which `rayo start` points to a
// file.
//
//   log().info("node {} joined from {}", id.hex(), address);
//
// Any thread. Workers and drivers do not log here: what they print is the user's.
#pragma once

#include <spdlog/logger.h>

namespace rayo::base {

// The process's logger; before init_log() it writes warnings and above to stderr.
spdlog::logger& log();

// `name` is "head", "raylet" or "keeper"; level from RAYO_LOG (trace, debug, info, warn, error), default info.
void init_log(const char* name);

}  // namespace rayo::base
