// One node's stream, from its Register to its end. In the fiber of its call.
#pragma once

#include "runtime/head/core.h"
#include "runtime/rpc/grpc/server.h"

namespace rayo::head {

base::Status serve_attach(Core& core, rpc::MessageStream<proto::NodeUp, proto::NodeDown>& stream, rpc::Call& call);

}  // namespace rayo::head
