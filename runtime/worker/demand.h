// The options of spawn and remote as messages. Pure.
#pragma once

#include <rayo/options.h>

#include "runtime/proto/common.pb.h"

namespace rayo::worker {

// Throws Invalid where no actor could be made so.
void check_options(const ActorOptions& options);

// A task holds 1 CPU unless told otherwise.
proto::Demand demand_of(const TaskOptions& options);
// An actor needs 1 CPU free to be placed and holds none, unless told otherwise.
proto::Demand demand_of(const ActorOptions& options);
bool same_demand(const TaskOptions& a, const TaskOptions& b);

NodeRecord node_record(const proto::NodeInfo& info);

}  // namespace rayo::worker
