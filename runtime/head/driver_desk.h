// Where a driver on another machine begins that knows the head's address alone, as `rayo start` prints it: it says hello to
// the head as it would to a raylet, and is told the nodes: a HelloReply without `node`, whose `address` is their list. It
// says hello again to the first of them that it reaches.
#pragma once

#include "runtime/base/fd.h"
#include "runtime/base/status.h"
#include "runtime/head/cluster_state.h"
#include "runtime/proto/worker.pb.h"
#include "runtime/rpc/data_header.h"

namespace rayo::head {

// The nodes that a driver may go to: those of the head's own machine first, since that is reached already; suspect ones
// last. A failure where there is none. Loop thread.
proto::HelloReply driver_answer(const ClusterState& state);

// Serves one driver from the byte behind its header, for rpc::kHandshakeLimit at most, and closes the socket. Verifies the
// header. Blocks: on a thread that may.
base::Status serve_driver(base::Fd socket, const rpc::DataHeader& header, const rpc::Secret& data_secret,
                          proto::HelloReply answer);

}  // namespace rayo::head
