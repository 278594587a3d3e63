// One exec: a child in a process group of its own that dies with this thread. Blocks until the child has
// exec'd (about a millisecond). To be called on the thread that lives as long as the raylet (the loop's): the
// death signal follows it.
#pragma once

#include <optional>
#include <string>
#include <sys/resource.h>
#include <sys/types.h>
#include <vector>

#include "runtime/base/status.h"

namespace rayo::raylet {

struct SpawnRequest {
  int program_fd = -1;                   // run by descriptor, so the file may be renamed or replaced meanwhile
  std::string program;                   // set: run by this path instead (it may be a script)
  std::vector<std::string> arguments;    // argv, [0] included
  std::vector<std::string> environment;  // KEY=VALUE
  std::string working_directory;         // "" or gone: stays where the raylet is
  int out_fd = -1;
  int error_fd = -1;
  std::optional<rlimit> open_files;  // else those of this process
};

base::StatusOr<pid_t> spawn_child(const SpawnRequest& request);

// Direct children of this process's first thread, zombies included: those that it made itself, and the orphans below
// (a subreaper's first thread gets them). What another thread has started (a probe of the GPUs) is that one's own.
std::vector<pid_t> own_children();

}  // namespace rayo::raylet
