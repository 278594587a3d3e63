// A control group of its own for each worker, where the machine lets us make them: then what a worker leaves behind is
// ended with it, whatever process group or session it chose, and a kill for want of memory is known to be its own.
//
//   WorkerGroups groups(base::divisible_cgroups(), cat("rayo-", getpid(), "-", node));   // the keeper knows the pid
//   groups.enter(process, pid);                 // a living child of ours
//   int64_t kills = groups.oom_kills(process);  // reaped: what the kernel killed in it; -1: nobody counted
//   groups.end(process);                        // what it left is killed, the group is removed
//
// Moving a process may wait for every processor, so that is done on a thread of its own, in the order asked for. Nothing
// waits for it: a worker that ends before it was moved had no group. Loop thread only.
#pragma once

#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

#include <rayo/id.h>

#include "runtime/base/private_file.h"

namespace rayo::raylet {

class WorkerGroups {
 public:
  // `parents`: groups in which ours are made, under `name`; what cannot be made is left out.
  WorkerGroups(const std::vector<base::Path>& parents, const std::string& name);
  ~WorkerGroups();  // ends and removes all that is left
  WorkerGroups(const WorkerGroups&) = delete;
  WorkerGroups& operator=(const WorkerGroups&) = delete;

  void enter(ProcessId process, pid_t pid);
  int64_t oom_kills(ProcessId process) const;
  void end(ProcessId process);

  // Of this node; empty: there are none, and a worker's process group has to do.
  const std::vector<base::Path>& folders() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rayo::raylet
