// The raylet's gRPC methods: for other raylets (objects, leases, reachability) and for the CLI (status,
// workers, logs, stop).
#pragma once

#include <functional>
#include <string>

#include "runtime/raylet/log_files.h"
#include "runtime/raylet/parts.h"
#include "runtime/rpc/grpc/server.h"

namespace rayo::raylet {

struct CliAnswers {
  base::Path daemon_log;  // raylet.log
  const LogFiles* logs = nullptr;
  std::function<proto::NodeInfo()> own_info;
  std::function<void(proto::StatusReply&)> name_cluster;  // id, name, epoch, address, HTTP
  std::function<void(base::Duration grace)> stop;         // begins this raylet's end
};

void add_object_methods(rpc::Service& service, Parts& parts);
void add_node_methods(rpc::Service& service, Parts& parts);
void add_cli_methods(rpc::Service& service, Parts& parts, CliAnswers answers);

}  // namespace rayo::raylet
