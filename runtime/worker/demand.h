// The options of spawn and remote as messages. Pure.
#pragma once

#include <rayo/options.h>

#include "runtime/proto/common.pb.h"

namespace rayo::worker {

// Throws Invalid where no actor could be made so, no task run so.
void check_options(const ActorOptions& options);
void check_options(const TaskOptions& options);

// A task holds 1 CPU unless told otherwise.
proto::Demand demand_of(const TaskOptions& options);
// An actor needs 1 CPU free to be placed and holds none, unless told otherwise.
proto::Demand demand_of(const ActorOptions& options);
// One lease serves both.
bool same_demand(const TaskOptions& a, const TaskOptions& b);

std::map<std::string, double> amounts_of(const proto::Resources& resources);
NodeRecord node_record(const proto::NodeInfo& info);

}  // namespace rayo::worker
