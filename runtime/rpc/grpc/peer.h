// Who makes a call: the role in the certificate, or our own uid at a unix socket of this machine.
#pragma once

#include <string>

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
};

}  // namespace rayo::rpc
