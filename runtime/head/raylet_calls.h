// What the head asks of raylets by itself: their workers, calls and objects, for `list`, `logs` and `why`. In fibers; one kept
// channel a node.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>

#include "runtime/head/core.h"
#include "runtime/rpc/grpc/client.h"

namespace rayo::head {

class RayletCalls {
 public:
  explicit RayletCalls(Core& core) : core_(core) {}
  // `what` (workers, tasks, objects) of all living nodes, asked at once; a node that does not answer within 2 s is left out.
  proto::ListReply list(const std::string& what);
  // By the first digits of its id (>= 6).
  std::optional<proto::WorkerInfo> find_worker(const std::string& id);

 private:
  std::shared_ptr<rpc::Channel> channel(NodeId node, const std::string& address);
  Core& core_;
  struct Kept {
    std::string address;
    std::shared_ptr<rpc::Channel> channel;  // shared with the calls under way
  };
  std::unordered_map<NodeId, Kept> channels_;
};

}  // namespace rayo::head
