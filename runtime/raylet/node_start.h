// The steps of a raylet's start that can fail for reasons outside: settings, port, join. Each error carries
// what to do next, and the exit code (docs/errors.md) for it.
#pragma once

#include <string>

#include <rayo/id.h>

#include "runtime/base/loop/loop.h"
#include "runtime/base/settings.h"
#include "runtime/base/status.h"
#include "runtime/raylet/lease_service.h"
#include "runtime/raylet/node_resources.h"
#include "runtime/rpc/grpc/port.h"
#include "runtime/rpc/join.h"

namespace rayo::raylet {

struct StartError {
  base::Status status;
  int exit_code = 1;
};

struct Arguments {
  base::Path settings;
  int ready_fd = -1;
};
// "--settings FILE --ready-fd N"; false for anything else.
bool parse_arguments(int argc, char** argv, Arguments& out);

// In a fiber: joins with the token, at the first of the heads that answers. Where the head starts beside this
// node it may be a moment late: a refused connection is tried again for some seconds.
base::StatusOr<rpc::JoinResult> join_cluster(base::Loop& loop, const base::RayletSettings& settings, NodeId node);

OwnNode describe_node(const base::RayletSettings& settings, NodeId node, const rpc::Port& port);
proto::NodeInfo node_info(const OwnNode& own, const base::RayletSettings& settings, const scheduler::Capacity& capacity,
                          const std::vector<gpu::Device>& listed);

}  // namespace rayo::raylet
