// `rayo stop` on the head's machine: every node is told and leaves; who does not within the grace is named.
#pragma once

#include <functional>

#include "runtime/head/core.h"

namespace rayo::head {

// In a fiber. The last progress lists the unreachable ones.
base::Status stop_cluster(Core& core, base::Duration grace,
                          const std::function<base::Status(const proto::StopProgress&)>& tell);

}  // namespace rayo::head
