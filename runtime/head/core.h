// The head's parts that belong together on the loop: the state, those who decide over it, and the line through which
// their outcomes go to disk and nodes. Loop thread.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "runtime/base/loop/event.h"
#include "runtime/head/actor_requests.h"
#include "runtime/head/cluster_state.h"
#include "runtime/head/commit_line.h"
#include "runtime/head/foundation.h"
#include "runtime/head/key_value_table.h"
#include "runtime/head/node_events.h"
#include "runtime/head/node_streams.h"
#include "runtime/head/placer.h"

namespace rayo::head {

class Core {
 public:
  // Takes up what the store holds. `foundation` outlives it.
  Core(Foundation& foundation, const base::Clock& clock);

  ClusterState state;
  Placer placer{state};
  NodeEvents nodes{state, placer};
  ActorRequests actors{state, placer};
  NodeStreams streams;
  CommitLine line;

  // What the shell knows besides; set before anybody is served.
  std::string address;
  std::string http;

  // The one message that every stream and status begins with: the cluster's own lines.
  void fill(proto::Registered& registered) const;
  proto::StatusReply status() const;

  using LeaseAnswered = base::OneShot<LeaseAnswer>;
  // Who waits for the answer to this ticket; an earlier waiter of the same one gets an empty answer.
  std::shared_ptr<LeaseAnswered> expect(uint64_t ticket);
  void expect_no_more(uint64_t ticket, const std::shared_ptr<LeaseAnswered>& waiter);

  const Foundation& foundation() const { return foundation_; }

 private:
  void restore(const std::vector<Row>& rows);
  void deliver(Outcome& outcome);

  Foundation& foundation_;
  std::unordered_map<uint64_t, std::shared_ptr<LeaseAnswered>> waiters_;
};

}  // namespace rayo::head
