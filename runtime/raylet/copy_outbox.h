// What this node, as a home, owes to the nodes that have copies of its objects in their arenas: "it is gone, free it". They keep
// what was made there until they hear it. One message a node at a time, sent again until it is answered or the node is dead;
// what goes meanwhile goes with the next one. So no more is kept here than the others have in their arenas.
//
// A class without I/O: `send` is the way out. Loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <unordered_map>

#include <rayo/id.h>

#include "runtime/proto/raylet.pb.h"

namespace rayo::raylet {

class CopyOutbox {
 public:
  // Sends one message; the answer comes by acknowledged() or failed().
  using Send = std::function<void(uint64_t holder, const proto::DropCopiesRequest& request)>;
  CopyOutbox(const NodeId& self, Send send) : self_(self), send_(std::move(send)) {}

  void gone(uint64_t holder, const ObjectId& object);
  void acknowledged(uint64_t holder);
  void failed(uint64_t holder);  // sent again at the next retry()
  void retry();
  void node_gone(uint64_t holder) { holders_.erase(holder); }
  bool empty() const { return holders_.empty(); }

 private:
  struct Holder {
    std::set<ObjectId> to_tell;
    std::set<ObjectId> told;  // and not answered
    bool waits_for_retry = false;
  };
  void advance(uint64_t holder, Holder& state);

  NodeId self_;
  Send send_;
  std::unordered_map<uint64_t, Holder> holders_;
};

}  // namespace rayo::raylet
