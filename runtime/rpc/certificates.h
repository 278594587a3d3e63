// The cluster's own certificates: a CA made at the head's first start, and one certificate for each process
// on gRPC, with its role in a URI SAN. EC P-256. Valid from 24 hours before they are made (clocks differ),
// for ten years at most.
//
//   auto authority = make_authority(cluster, clock.wall());
//   auto request = make_signing_request();   // on the joiner; the key stays there
//   auto pem = issue(*authority, request->request_pem, {Role::kNode, cluster, member_id(node)}, clock.wall());
//
// Any thread. Errors: InvalidArgument for a text that is no certificate, request or key; FailedPrecondition
// from the checks.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rayo/id.h>

#include "runtime/base/clock.h"
#include "runtime/base/session.h"
#include "runtime/base/status.h"
#include "runtime/rpc/identity.h"
#include "runtime/rpc/token.h"

namespace rayo::rpc {

enum class Role { kHead, kNode, kClient };

// A node's or a client's 128 bits, whichever the role says.
using MemberId = Id<struct MemberTag>;
template <class IdType>
MemberId member_id(const IdType& id) {
  return {id.high, id.low};
}

// Who a certificate speaks for: rayo://CLUSTER/head, rayo://CLUSTER/node/ID, rayo://CLUSTER/client/ID (ids:
// 32 hexadecimal digits).
struct RoleName {
  Role role = Role::kHead;
  ClusterId cluster;
  MemberId id;  // nil for the head

  std::string uri() const;
  static std::optional<RoleName> parse(std::string_view uri);
  friend bool operator==(const RoleName&, const RoleName&) = default;
};

struct Authority {
  std::string certificate_pem;
  std::string key_pem;
};

struct SigningRequest {
  std::string request_pem;
  std::string key_pem;
};

base::StatusOr<Authority> make_authority(const ClusterId& cluster, base::WallTime now);
base::StatusOr<SigningRequest> make_signing_request();

// A certificate for the key that signed the request; the request's own names are ignored.
base::StatusOr<std::string> issue(const Authority& authority, std::string_view request_pem, const RoleName& name,
                                  base::WallTime now);
// Request and certificate in one, for the head itself.
base::StatusOr<TlsIdentity> issue_identity(const Authority& authority, const RoleName& name, base::WallTime now);

// For the HTTP port: speaks for no role, but for these hosts (names or numeric addresses), so that any HTTPS client
// that knows the CA can check it.
base::StatusOr<TlsIdentity> issue_server_identity(const Authority& authority, const std::vector<std::string>& hosts,
                                                  base::WallTime now);

// SHA-256 of the certificate's DER form.
base::StatusOr<Fingerprint> fingerprint_of(std::string_view certificate_pem);
// The role in a certificate's SAN; nothing is verified. For tests.
base::StatusOr<RoleName> role_of(std::string_view certificate_pem);

// What gRPC would only answer with "Socket closed": the certificate is signed by this CA, is valid now, and
// its key fits.
base::Status check_identity(const TlsIdentity& identity, base::WallTime now);

// ca.pem and ca.key in the head's state directory, 0600.
base::Status store_authority(const base::Path& dir, const Authority& authority);
base::StatusOr<Authority> load_authority(const base::Path& dir);  // NotFound before the first start

}  // namespace rayo::rpc
