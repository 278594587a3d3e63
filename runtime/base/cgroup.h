// The control groups that this process lives in, of version 1, version 2, or both side by side.
//
//   Path memory = own_cgroup("memory");      // /sys/fs/cgroup/memory/user.slice
//   for (const Path& group : divisible_cgroups()) ...   // where groups below ours may be made
//
// Reads /proc and /sys; any thread. `root` stands before both: "/" but in tests.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/private_file.h"

namespace rayo::base {

// Our group's folder in the hierarchy of that controller of version 1 ("memory", "cpu"); "": the unified one, of version
// 2. Empty where there is none. In a container the group that is mounted there.
Path own_cgroup(std::string_view controller, const Path& root = "/");

// Of the unified hierarchy and version 1's of memory: our group where this process may make groups of its own below it
// and put processes there.
std::vector<Path> divisible_cgroups(const Path& root = "/");

// The number behind `key` in a control file of lines "key number", as memory.events has them; -1: no such line.
int64_t number_after(const std::string& text, std::string_view key);

// Removes the groups in `parent` whose name begins with `prefix`, and those in them; what still has processes stays.
void remove_cgroups(const Path& parent, std::string_view prefix);

}  // namespace rayo::base
