#include "examples/llm_serving/gateway_actor.h"

#include <cstdio>
#include <cstdlib>

namespace serving {
namespace {

constexpr std::chrono::seconds kPause{1};  // before the port is tried again

// A port that can be had: options.port, or any for 0. Given back: the actor takes it in a moment.
uint16_t try_port(const EndpointOptions& options) {
  namespace ip = boost::asio::ip;
  boost::asio::io_context io;
  const std::string address = options.host == "localhost" ? "127.0.0.1" : options.host;
  const ip::tcp::acceptor acceptor(io, ip::tcp::endpoint(ip::make_address(address), options.port));
  return acceptor.local_endpoint().port();
}

}  // namespace

GatewayActor::GatewayActor(EndpointOptions options) : options_(std::move(options)), thread_([this] { run(); }) {}

// Never while it serves: only a process ends it, its own (run) or a signal.
GatewayActor::~GatewayActor() { thread_.join(); }

void GatewayActor::run() {
  try {
    Endpoint endpoint(options_);
    const Ending ending = endpoint.run();
    std::fprintf(stderr, "the endpoint at port %u has ended: %s\n", endpoint.port(),
                 ending.what.empty() ? "it was asked to" : ending.what.c_str());
    rayo::kill(rayo::actor<GatewayActor>(gateway_name(options_.port), kServeNamespace));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rayo serve: the endpoint at port %u cannot go on: %s\n", options_.port, error.what());
  }
  std::this_thread::sleep_for(kPause);
  std::_Exit(1);  // it is started again
}

StartedGateway start_gateway(EndpointOptions options) {
  options.detached = true;
  options.port = try_port(options);
  rayo::ActorOptions place = {.name = endpoint_name(options.port), .name_space = kServeNamespace};
  place.resources.cpus = 0;
  place.node = rayo::context().node;
  place.lifetime = rayo::Lifetime::kDetached;
  Mailbox mailbox = rayo::spawn<EndpointActor>(place);
  place.name = gateway_name(options.port);
  place.max_restarts = -1;
  rayo::spawn<GatewayActor>(place, options);
  return {options.port, mailbox};
}

}  // namespace serving
