// How a machine with the token becomes a member, before it speaks gRPC: the data header of kind join, TLS
// with the token's pre-shared key, a signing request up, certificate and CA down. Both sides block on a
// socket, on a thread of the caller's.
//
//   auto joined = join({"10.0.0.5", 6379}, *token, {Role::kNode, member_id(node), kVersion}, deadline);
//   Channel::tls({.addresses = ..., .identity = joined->identity, ...});
//
// A stranger is told nothing, not even a version: the stream is cut. The joiner's errors, each with a next
// step:
//   Unavailable (CLI: exit 3)      does not resolve; connection refused; timed out; no route: address and port named
//   Unauthenticated (exit 4)       the head cut the stream on our header; the CA's fingerprint is not the token's
//   FailedPrecondition (exit 4)    another minor version, both named; the head's clock and ours differ by over a day
#pragma once

#include <string>
#include <string_view>

#include <rayo/id.h>

#include "runtime/base/address.h"
#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/status.h"
#include "runtime/rpc/certificates.h"
#include "runtime/rpc/data_header.h"
#include "runtime/rpc/token.h"

namespace rayo::rpc {

struct Joiner {
  Role role = Role::kNode;  // or kClient
  MemberId id;
  std::string version;  // "0.1.0"
};

struct JoinResult {
  TlsIdentity identity;
  ClusterId cluster;
  std::string cluster_name;
  std::string version;  // of the head
  Secret data_secret{};
};

base::StatusOr<JoinResult> join(const base::HostPort& head, const Token& token, const Joiner& joiner,
                                base::TimePoint deadline);

// 3 or 4 (docs/errors.md) for an error of join().
int join_exit_code(const base::Status& error);

// What the head answers with; outlives every serve_join that uses it, never written while one runs.
struct JoinDesk {
  Secret token_secret{};
  Authority authority;
  ClusterId cluster;
  std::string cluster_name;
  std::string version;
  Secret data_secret{};
};

// Serves one joiner from the byte behind its header, for kHandshakeLimit at most, and closes the socket.
// Verifies the header. Returns who joined, for the log; an error has been told to nobody but (another
// version) a joiner that holds the token.
base::StatusOr<RoleName> serve_join(base::Fd socket, const DataHeader& header, const JoinDesk& desk);

// "0.1.7" and "0.1.2" work together, "0.2.0" and "0.1.0" do not.
bool same_minor_version(std::string_view left, std::string_view right);

}  // namespace rayo::rpc
