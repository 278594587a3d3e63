// Tells a raylet that is gone (its port refuses) from a machine that is silent: tries the port of each suspect node. In
// a fiber.
#pragma once

#include "runtime/base/loop/loop.h"
#include "runtime/head/core.h"

namespace rayo::head {

// Until no node is suspect any more, or the fiber is cancelled.
void probe_suspects(base::Loop& loop, Core& core);

}  // namespace rayo::head
