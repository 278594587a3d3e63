// How a process introduces itself to its raylet, and what it learns: blocking, before there is an engine.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <rayo/id.h>

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/status.h"
#include "runtime/proto/worker.pb.h"
#include "runtime/rpc/doorbell.h"
#include "runtime/worker/raylet_socket.h"

namespace rayo::worker {

// `argv` of this program and what its workers are to be started with; kind and process are the caller's.
proto::Hello make_hello(proto::ProcessKind kind, const ProcessId& process, const std::vector<std::string>& arguments);

struct Welcome {
  proto::HelloReply reply;
  std::vector<base::Fd> fds;  // the arena, where the reply says so
};
// Says hello; `doorbell` null for a zygote and a remote driver. FailedPrecondition, Unavailable as the raylet answers.
base::StatusOr<Welcome> say_hello(RayletSocket& raylet, const proto::Hello& hello, const rpc::Doorbell* doorbell);

// A raylet has to copy and hash some 100 MB.
inline constexpr base::Duration kPackageTimeout = std::chrono::seconds(60);

// An executable and its content hash. InvalidArgument where it is none.
struct ProgramFile {
  base::Fd file;
  int64_t size_bytes = 0;
  PackageId package;
};
base::StatusOr<ProgramFile> read_program(const std::string& path);
// Its pieces, for a raylet on another machine.
base::Status in_chunks(const ProgramFile& program, const std::function<void(proto::ToRaylet&)>& send);

// Offers this program by its content hash, and the file where the raylet lacks it.
base::StatusOr<PackageId> offer_program(RayletSocket& raylet);

int count_threads();

}  // namespace rayo::worker
