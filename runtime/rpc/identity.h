// What a process shows on mutual TLS, as PEM texts: its cluster's CA, its own certificate (the role stands in
// a URI SAN, certificates.h), and the key that never leaves the machine. A value; whoever holds it keeps it
// private.
#pragma once

#include <string>

namespace rayo::rpc {

struct TlsIdentity {
  std::string ca_pem;
  std::string certificate_pem;
  std::string key_pem;
};

}  // namespace rayo::rpc
