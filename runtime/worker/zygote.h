// The process that forks a job's workers: one thread, no engine, nothing but a loop over the raylet's Fork frames. The
// children are the raylet's own (CLONE_PARENT): it reaps them.
//
//   Forked child = run_zygote(std::move(raylet), {});   // returns in each child, and never in the zygote
//
// The raw clone3 skips pthread_atfork handlers, so it is used with one thread only; what glibc caches about the thread
// is mended (its tid by CLONE_CHILD_SETTID, the robust list by hand).
#pragma once

#include <rayo/id.h>

#include "runtime/worker/raylet_socket.h"

namespace rayo::worker {

// Around each fork, where the program's language must be told of it (Python: PyOS_BeforeFork and its like). Null: nothing.
struct ForkHooks {
  void (*before)() = nullptr;
  void (*in_parent)() = nullptr;
  void (*in_child)() = nullptr;
};

struct Forked {
  ProcessId process;
  RayletSocket raylet;  // not used yet
};

// Ends the process when the raylet is gone or says Exit.
Forked run_zygote(RayletSocket raylet, const ForkHooks& hooks);

}  // namespace rayo::worker
