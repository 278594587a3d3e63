// HOST:PORT as people write it: 10.0.0.5:6379, head.lan:6379, [fe80::1]:6379; lists with commas. Text only, no look-up.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace rayo::rpc {

struct HostPort {
  std::string host;  // without brackets
  int port = 0;

  std::string text() const;  // a host with colons in brackets
  friend bool operator==(const HostPort&, const HostPort&) = default;
};

// `default_port` > 0 stands where the text has none. InvalidArgument: no host, no port, a port that is no number of 1..65535,
// an IPv6 address without brackets.
base::StatusOr<HostPort> parse_host_port(std::string_view text, int default_port = 0);
// "a:1,b:2"; at least one.
base::StatusOr<std::vector<HostPort>> parse_address_list(std::string_view text, int default_port = 0);

}  // namespace rayo::rpc
