// Inside of this folder: our messages, errors and names in gRPC's terms.
#pragma once

#include <grpcpp/grpcpp.h>
#include <optional>
#include <string>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/rpc/certificates.h"
#include "runtime/rpc/grpc/methods.h"
#include "runtime/rpc/grpc/peer.h"

namespace rayo::rpc {

// A handler's error carries this trailing entry (binary; the next step, maybe empty): what has it is ours and
// not gRPC's own text.
inline constexpr char kNextStepKey[] = "rayo-next-step-bin";

// Of a stream, fixed: measuring the path instead (BDP_PROBE) costs an idle connection pings.
inline constexpr int kWindowBytes = 1 << 20;

// Pings of both ends; a peer that answers none is given up after their sum.
inline constexpr int kKeepaliveMs = 1000;
inline constexpr int kKeepaliveTimeoutMs = 2000;  // 500 works on an idle machine; a loaded one gets more

grpc::ByteBuffer to_buffer(std::string message);
std::string to_string(const grpc::ByteBuffer& buffer);

grpc::Status to_grpc(const base::Status& status);

// `place` is "10.0.0.5:6379" or a socket's path; `reached`: there was a connection.
struct CallTexts {
  std::string place;
  std::string method;
  bool local = false;
  bool reached = false;
};
// gRPC's status of a call as ours: a handler's own error unchanged, gRPC's texts in our words with a next
// step.
base::Status from_grpc(const grpc::Status& status, const std::optional<std::string>& next_step, const CallTexts& texts);

// gRPC's deadlines are of the wall clock.
std::chrono::system_clock::time_point to_wall(base::TimePoint deadline);
base::TimePoint from_wall(std::chrono::system_clock::time_point deadline);

// Who stands behind a connection; nullopt: TLS without a name of ours.
std::optional<Peer> peer_of(const grpc::AuthContext& context);
// Whether this role may call a method.
bool may_call(const Peer& peer, Access access);

// gRPC's log goes to ours at debug level, and its locks are not searched for cycles (Debian's Abseil does it at each lock
// unless told otherwise). Idempotent; before the first use of gRPC.
void prepare_grpc();

}  // namespace rayo::rpc
