// What this node owes to the homes of foreign objects: "we hold it", "we no longer do", "we have a copy". One
// message a home at a time, numbered, sent again until it is acknowledged or the home's node is dead; what
// changes meanwhile goes with the next one.
//
// A class without I/O: `send` is the way out. Loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>

#include <rayo/id.h>

#include "runtime/proto/raylet.pb.h"

namespace rayo::raylet {

class HomeOutbox {
 public:
  // Sends one message; the answer comes by acknowledged() or failed().
  using Send = std::function<void(uint64_t home, const proto::HoldObjectsRequest& request)>;
  HomeOutbox(const NodeId& self, Send send) : self_(self), send_(std::move(send)) {}

  void hold(const ObjectId& object, bool held);
  void copy(const ObjectId& object, std::optional<int64_t> size_bytes);  // nullopt: no longer
  // Of the message with that number.
  void acknowledged(uint64_t home, uint64_t number);
  void failed(uint64_t home, uint64_t number);  // sent again at the next retry()
  void retry();
  void node_gone(uint64_t home);
  bool empty() const;  // nothing is owed to anybody

 private:
  struct Home {
    uint64_t number = 0;  // outlives the home's death: it may be back in the same life, and applies no number twice
    std::map<ObjectId, bool> holds;  // the last word on each counts
    std::map<ObjectId, std::optional<int64_t>> copies;
    std::optional<proto::HoldObjectsRequest> in_flight;
    bool waits_for_retry = false;
  };
  void advance(uint64_t home, Home& state);
  Home* in_flight(uint64_t home, uint64_t number);

  NodeId self_;
  Send send_;
  std::unordered_map<uint64_t, Home> homes_;
};

}  // namespace rayo::raylet
