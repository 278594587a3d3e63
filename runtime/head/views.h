// What `status`, `list` and `why` say, made from the state as it is. Pure reading; loop thread.
#pragma once

#include <string>

#include "runtime/head/cluster_state.h"

namespace rayo::head {

// Everything but the cluster's own lines (id, name, address ...), which the shell fills in.
proto::StatusReply status_of(const ClusterState& state);
// nodes, actors, jobs; workers are the raylets' to tell.
proto::ListReply list_of(const ClusterState& state, const std::string& what);
// An id is named by so many of its first digits, or all.
inline constexpr size_t kPrefixDigits = 6;
// By the id's first digits, or an actor's name.
proto::WhyReply why_of(const ClusterState& state, const std::string& id);
// Of a worker, driver or zygote as its raylet lists it.
proto::WhyReply why_process(const ClusterState& state, const proto::WorkerInfo& process);

// The process whose log is meant by an actor's id or name, a job's, or a node's (then process is nil).
struct LogPlace {
  NodeId node;
  ProcessId process;
};
std::optional<LogPlace> log_of(const ClusterState& state, const std::string& id);

}  // namespace rayo::head
