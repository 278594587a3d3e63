// An endpoint that lives in the cluster (`rayo serve --detach`): a detached actor on the node of the command. Where its process
// dies it is started again there and goes on at the same port, with the engines that are there.
#pragma once

#include <string>
#include <thread>

#include "examples/llm_serving/endpoint.h"

namespace serving {

class GatewayActor {
 public:
  explicit GatewayActor(EndpointOptions options);
  ~GatewayActor();

 private:
  void run();

  const EndpointOptions options_;
  std::thread thread_;
};

inline std::string gateway_name(uint16_t port) { return "gateway-" + std::to_string(port); }

struct StartedGateway {
  uint16_t port = 0;
  Mailbox mailbox;  // what is ordered there already is carried out when it lives
};

// Throws rayo::Error, boost::system::system_error where nothing can listen there.
StartedGateway start_gateway(EndpointOptions options);

}  // namespace serving
