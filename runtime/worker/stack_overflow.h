// Tells of a call whose stack overflows: the guard page below it is a SIGSEGV like any other, which nobody could tell
// from a bad pointer. The process says so in its doorbell's page and on stderr, and then dies of the signal all the same.
//
// One process, the thread that runs calls; a handler that the program has of its own is left alone.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/base/stack_pool.h"

namespace rayo::worker {

// From now on the calling thread handles SIGSEGV on a stack of its own. `told` becomes 1 before the end.
void watch_stack_overflows(std::atomic<uint32_t>& told);
// The stack on which the thread goes on; none: its own.
void runs_on(const base::Stack& stack);

}  // namespace rayo::worker
