// HOST:PORT as people write it, and what it means on this machine. [v6]:port throughout; name look-ups block, so not on
// a loop.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace rayo::base {

struct HostPort {
  std::string host;  // without brackets
  int port = 0;
  std::string text() const;  // "10.0.0.5:6379", "[fe80::1]:6379"
  friend bool operator==(const HostPort&, const HostPort&) = default;
};

// InvalidArgument with the text and how to write it; the port is 1..65535.
StatusOr<HostPort> parse_host_port(std::string_view text);
// The same where the port may be left out: HOST, V6 or [V6] too.
StatusOr<HostPort> parse_host(std::string_view text, int default_port);
// "A:1,B:2": at least one.
StatusOr<std::vector<HostPort>> parse_host_ports(std::string_view text);

// The numeric addresses of a name or of a number, each once; NotFound where it does not resolve.
StatusOr<std::vector<std::string>> resolve_host(const std::string& host);
// Whether a numeric address is one of this machine's (loopback included), in this network namespace.
bool is_local_address(const std::string& numeric);

}  // namespace rayo::base
