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
  // `what` (workers, tasks, objects) of all living nodes, asked at once; one that does not answer within 2 s is named as
  // unreachable.
  proto::ListReply list(const std::string& what);
  struct FoundWorker {
    std::optional<proto::WorkerInfo> worker;
    std::string doubt;  // where there is none: "", or the nodes that did not answer
  };
  // By the first digits of its id (>= 6).
  FoundWorker find_worker(const std::string& id);

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
