// How a process introduces itself to its raylet, and what it learns: blocking, before there is an engine.
#pragma once

#include <string>
#include <vector>

#include <rayo/id.h>

#include "runtime/base/fd.h"
#include "runtime/base/status.h"
#include "runtime/proto/worker.pb.h"
#include "runtime/rpc/doorbell.h"

namespace rayo::worker {

// `argv` of this program and what its workers are to be started with; kind and process are the caller's.
proto::Hello make_hello(proto::ProcessKind kind, const ProcessId& process, const std::vector<std::string>& arguments);

struct Welcome {
  base::Fd socket;
  proto::HelloReply reply;
  std::vector<base::Fd> fds;  // the arena, where the reply says so
};
// Says hello on a connected socket; `doorbell` null for a zygote. PermissionDenied, FailedPrecondition as the raylet answers.
base::StatusOr<Welcome> say_hello(base::Fd socket, const proto::Hello& hello, const rpc::Doorbell* doorbell);

// Offers this program by its content hash, and the file where the raylet lacks it.
base::StatusOr<PackageId> offer_program(int socket);

int count_threads();

}  // namespace rayo::worker
