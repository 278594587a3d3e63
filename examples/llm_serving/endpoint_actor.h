// Where a running endpoint can be found by `rayo serve` on any machine of the cluster: an actor of a known name to which the
// endpoint reports, where it fetches what it is asked to do, and which keeps what an endpoint that is started again must know.
//
//   uint64_t number = mailbox.call<&EndpointActor::ask>(order).get();
//   ... mailbox.call<&EndpointActor::read>() until its "done" is `number` or more; what went wrong is in its "failures" ...
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <rayo/rayo.h>

namespace serving {

// One model, as `rayo serve MODEL` asks for it.
struct ModelSpec {
  std::string name = {};                // what clients call it
  std::string path = {};                // on the node `source`
  std::vector<std::string> paths = {};  // of all its parts
  uint64_t bytes = 0;                   // of all of them
  rayo::NodeId source = {};             // of the command: hands the files to nodes that lack them
  int32_t replicas = 0;                 // 0: one for each node whose free memory holds it
  int32_t max_context = 0;
  int32_t parallel = 8;
  int32_t threads = 0;
  int32_t step_seconds = 30;          // see EngineOptions
  std::vector<int32_t> running = {};  // replicas that an endpoint before this one started
};

struct EndpointOrder {
  enum class Kind : uint8_t { kAdd, kRemove, kScale, kStop };
  Kind kind = Kind::kStop;
  uint64_t number = 0;    // given by the actor
  ModelSpec model = {};   // of kAdd
  uint64_t added = 0;     // of kRemove, where not 0: what that order added, and no other's model of the name
  std::string name = {};  // of kRemove, kScale; empty: the only one
  int32_t replicas = 0;   // of kScale; 0: one for each node
};

// What an endpoint tells of itself.
struct EndpointTold {
  std::string report = {};             // JSON
  std::vector<ModelSpec> models = {};  // with these it would go on
  uint64_t done = 0;                   // orders up to this number were carried out
};

struct EndpointActor {
  EndpointTold told = {};
  std::vector<EndpointOrder> orders = {};
  uint64_t last = 0;

  // Of the endpoint: its report goes in, orders come out, again and again until it tells that they are done.
  std::vector<EndpointOrder> exchange(const EndpointTold& fresh) {
    told = fresh;
    last = std::max(last, told.done);
    std::erase_if(orders, [this](const EndpointOrder& order) { return order.number <= told.done; });
    return orders;
  }
  EndpointTold read() { return told; }
  uint64_t ask(EndpointOrder order) {
    order.number = ++last;
    orders.push_back(std::move(order));
    return last;
  }
};

using Mailbox = rayo::ActorHandle<EndpointActor>;

inline constexpr const char* kServeNamespace = "rayo-serve";
inline std::string endpoint_name(uint16_t port) { return "endpoint-" + std::to_string(port); }

}  // namespace serving
