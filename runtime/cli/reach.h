// Whether a node that has just joined and the nodes that are there reach each other's ports, both ways: a
// firewall that blocks one direction would show much later, as calls that never come back.
#pragma once

#include "runtime/base/session.h"
#include "runtime/cli/cluster.h"

namespace rayo::cli {

// Asks this node's raylet to dial each other living node, and each of those to dial this node. Unavailable
// names the blocked address, its port and the direction. Nodes that do not answer the question itself are
// passed by: their own trouble is in `status`.
base::Status check_reach(Cluster& cluster, const base::NodeFiles& node, const base::Readiness& raylet,
                         Terminal& terminal);

}  // namespace rayo::cli
