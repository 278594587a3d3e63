// All that the head knows, as one value: owned by the loop thread (or a simulation). Those who decide over it are
// Placer, NodeEvents and ActorRequests; those who read it make `status`, `list` and `why` of it.
#pragma once

#include <map>
#include <unordered_map>

#include "runtime/base/clock.h"
#include "runtime/head/actor_directory.h"
#include "runtime/head/event_log.h"
#include "runtime/head/job_table.h"
#include "runtime/head/key_value_table.h"
#include "runtime/head/node_table.h"
#include "runtime/head/placement_queue.h"
#include "runtime/head/records.h"

namespace rayo::head {

struct ClusterState {
  explicit ClusterState(const base::Clock& its_clock, NodeLimits limits = {}, uint64_t first_request = 1)
      : clock(its_clock), nodes(limits, first_request) {}

  const base::Clock& clock;
  NodeTable nodes;
  ActorDirectory actors;
  JobTable jobs;
  PlacementQueue queue;
  EventLog events;
  KeyValueTable key_value;
  std::unordered_map<ActorId, Placed> starting;            // StartActor sent, not yet ALIVE
  std::map<std::pair<NodeId, uint64_t>, Placed> granting;  // Grant sent, not yet answered

  base::TimePoint now() const { return clock.now(); }
  int64_t now_us() const { return unix_us(clock.wall()); }
};

}  // namespace rayo::head
