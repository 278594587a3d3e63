// Who a pid file means. It holds "PID START_TICKS BOOT_ID", so a reused pid, or one of before the last boot, is never
// taken for a process of ours. Plain file reading, from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>

#include "runtime/base/private_file.h"

namespace rayo::base {

// This boot of this machine: equal for all processes of one machine (network namespaces and containers included).
std::string boot_id();

// Clock ticks since boot at which the process started; nullopt where it is gone or a zombie.
std::optional<uint64_t> start_ticks(pid_t pid);

// The live process that a pid file names; nullopt where it is gone, was another, or before the last boot.
std::optional<pid_t> live_pid(const Path& pid_file);
Status write_pid_file(const Path& pid_file, pid_t pid);

}  // namespace rayo::base
