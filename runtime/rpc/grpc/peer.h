// Who makes a call: the role in the certificate, or our own uid at a unix socket of this machine.
#pragma once

#include <string>

#include "runtime/base/status.h"
#include "runtime/base/text.h"
#include "runtime/rpc/certificates.h"

namespace rayo::rpc {

struct Peer {
  bool local = false;  // a unix socket; then `name` says nothing
  RoleName name;

  bool is_head() const { return !local && name.role == Role::kHead; }
  bool is_node() const { return !local && name.role == Role::kNode; }
  bool is_client() const { return !local && name.role == Role::kClient; }
  // "the head", "node 4f2a...", "client 77...", "this machine"
  std::string text() const;

  // A node acts in its own name alone, whatever a request says; the head and our own uid may act for any.
  template <class NodeIdType>
  base::Status may_act_for(const NodeIdType& node) const {
    if (local || is_head() || (is_node() && name.id == member_id(node))) return {};
    return base::failed(absl::StatusCode::kPermissionDenied, base::cat(text(), " may not act for node ", node.hex()),
                        "each node has a certificate of its own: `rayo stop` there, and join again");
  }
};

}  // namespace rayo::rpc
