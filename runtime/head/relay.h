// A worker's request that only the head can answer, relayed by its raylet. In fibers; every request may come twice.
#pragma once

#include "runtime/base/loop/event.h"
#include "runtime/head/core.h"

namespace rayo::head {

class Relay {
 public:
  explicit Relay(Core& core) : core_(core) {}
  proto::RelayReply answer(const proto::RelayRequest& request);

 private:
  proto::RelayReply create(NodeId node, const proto::RelayRequest& request);
  proto::RelayReply kill(const proto::KillActor& request);
  proto::RelayReply key_value(JobId job, const proto::KeyValue& request);
  void forget_values(JobId job);
  proto::RelayReply list_nodes() const;
  proto::RelayReply find_job(JobId id) const;
  proto::RelayReply log_lines(const proto::LogLinesFor& lines);

  Core& core_;
  base::Mutex key_value_turn_;  // a PUT that must not overwrite looks and writes in one turn
};

// Places and waits; the reply as of PlaceLeases.
proto::PlaceLeasesReply place_leases(Core& core, const proto::PlaceLeasesRequest& request, base::TimePoint deadline,
                                     const base::Event& caller_gone);

}  // namespace rayo::head
