// Where a running `rayo serve` can be found by `rayo serve status|stop|scale` on any machine of the cluster: an actor of a
// known name to which it reports, and where it fetches what it is asked to do.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <rayo/rayo.h>

namespace serving {

struct EndpointOrder {
  bool stop = false;
  int32_t replicas = 0;  // of a scale; 0: one for each node
};

struct EndpointActor {
  std::string report = {};  // JSON
  std::vector<EndpointOrder> orders = {};

  // Of the gateway: its report goes in, orders come out.
  std::vector<EndpointOrder> exchange(const std::string& fresh) {
    report = fresh;
    return std::exchange(orders, {});
  }
  std::string read() { return report; }
  void ask(const EndpointOrder& order) { orders.push_back(order); }
};

inline constexpr const char* kServeNamespace = "rayo-serve";
inline std::string endpoint_name(uint16_t port) { return "endpoint-" + std::to_string(port); }

}  // namespace serving
