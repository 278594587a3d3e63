// The way down to each attached node: a queue that a fiber of its stream empties. A node that reads slowly is cut at
// kOutboxBytes: it registers again, and what it missed is settled then. Loop thread.
#pragma once

#include <memory>
#include <unordered_map>

#include <rayo/id.h>

#include "runtime/base/loop/event.h"
#include "runtime/head/outcome.h"

namespace rayo::head {

class NodeStreams {
 public:
  struct Outbox {
    base::Queue<proto::NodeDown> queue;
    size_t bytes = 0;
  };

  // The node's new stream; an older one of it is closed.
  std::shared_ptr<Outbox> open(NodeId node);
  // The stream has ended; nothing where it is no longer the node's.
  void close(NodeId node, const std::shared_ptr<Outbox>& outbox);
  bool current(NodeId node, const std::shared_ptr<Outbox>& outbox) const;
  bool replaced(NodeId node, const std::shared_ptr<Outbox>& outbox) const;  // by a newer one

  // Nil: to all. What is for a node without a stream is dropped.
  void send(const Send& send);
  static void push(Outbox& outbox, const proto::NodeDown& message);
  bool attached(NodeId node) const { return streams_.contains(node); }

 private:
  std::unordered_map<NodeId, std::shared_ptr<Outbox>> streams_;
};

}  // namespace rayo::head
