// Lists of what several nodes know a part of: tasks (a caller has noted a call, and another process its run) and objects
// (their home knows them, and each node its copy). Pure; any thread.
#pragma once

#include <string>
#include <unordered_map>

#include "runtime/head/cluster_state.h"

namespace rayo::head {

// What of the state these lists name, by the short ids that stand in calls and objects. A copy: lists of many are made on
// another thread.
struct NamedByKey {
  explicit NamedByKey(const ClusterState& state);
  struct Actor {
    proto::Id id;
    std::string class_name;
  };
  std::unordered_map<uint64_t, Actor> actors;
  std::unordered_map<uint64_t, proto::Id> nodes;
};

// As many as one answer holds.
inline constexpr size_t kMostListed = 50'000;

// `told`: what the raylets answered. The newest first.
proto::ListReply tasks_of(const proto::ListReply& told, const NamedByKey& named);
// The largest first.
proto::ListReply objects_of(const proto::ListReply& told, const NamedByKey& named);

}  // namespace rayo::head
