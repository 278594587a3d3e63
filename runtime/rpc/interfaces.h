// The network interfaces of this machine and which one `start --head` and `start --address` listen on: asked
// for by name, else the one with the default route, else the only one that is up, else loopback. Reads
// getifaddrs and /proc/net/route; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace rayo::rpc {

struct Interface {
  std::string name;
  std::string address;  // numeric; one entry for each address, IPv4 first; no IPv6 link-local ones
  bool loopback = false;
  bool default_route = false;
};

// Those that are up.
base::StatusOr<std::vector<Interface>> list_interfaces();

struct InterfaceChoice {
  Interface chosen;
  std::string why;  // "eth0, of the default route; also up: docker0 172.17.0.1"
};

// Pure. `wanted` is an interface's name or ""; NotFound lists what there is.
base::StatusOr<InterfaceChoice> choose_interface(const std::vector<Interface>& interfaces, std::string_view wanted);

// The name of the interface of the default route of least metric in the text of /proc/net/route; "" where
// there is none.
std::string default_route_interface(std::string_view proc_net_route);

}  // namespace rayo::rpc
