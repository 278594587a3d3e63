#include "runtime/head/stop_cluster.h"

#include <algorithm>

#include "runtime/base/text.h"
#include "runtime/head/records.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::head {

using base::cat;

namespace {

constexpr base::Duration kLook = 20ms;
constexpr base::Duration kDefaultGrace = 10s;
constexpr base::Duration kFarewell = 2s;  // on top of the grace: what was not over then is killed, reaped and told

// Its beats have ended, and not by Leave.
bool lost(const NodeTable& nodes, NodeId id) {
  return std::ranges::any_of(nodes.dead(), [id](const proto::NodeInfo& info) {
    return rpc::from_proto<NodeId>(info.node()) == id && info.death().kind() == proto::NODE_LOST;
  });
}

std::string node_text(const proto::NodeInfo& info) { return cat(info.hostname(), " at ", info.address()); }

}  // namespace

base::Status stop_cluster(Core& core, base::Duration grace,
                          const std::function<base::Status(const proto::StopProgress&)>& tell) {
  if (grace <= base::Duration::zero()) grace = kDefaultGrace;
  auto deadline = base::deadline_after(base::deadline_after(core.state.now(), grace), kFarewell);
  std::map<NodeId, std::string> waiting;
  Outcome out;
  for (const auto& [id, node] : core.state.nodes.all()) {
    waiting.emplace(id, node_text(node.info));
    auto* leave = out.send(id).mutable_leave_now();
    leave->set_reason("the cluster is stopped");
    leave->set_grace_ms(std::chrono::duration_cast<std::chrono::milliseconds>(grace).count());
  }
  core.line.submit(std::move(out));
  bool ending = false;  // another stop was quicker: what this one still waits for is no news of the nodes
  while (!waiting.empty() && core.state.now() < deadline) {
    if (ending = !base::sleep_for(kLook); ending) break;
    for (auto at = waiting.begin(); at != waiting.end();) {
      // A raylet that leaves ends its processes first, and then says Leave. A stream that ended says nothing.
      if (core.state.nodes.find(at->first) || lost(core.state.nodes, at->first)) {
        ++at;
        continue;
      }
      proto::StopProgress progress;
      progress.set_text(cat("node ", at->second, " has left"));
      RAYO_RETURN_IF_ERROR(tell(progress));
      at = waiting.erase(at);
    }
  }
  proto::StopProgress last;
  last.set_last(true);
  if (ending) waiting.clear();
  last.set_text(ending            ? "the head ends already, as another stop has asked"
                : waiting.empty() ? "all nodes have left"
                                  : cat(waiting.size(), " of the nodes did not answer"));
  for (const auto& [id, text] : waiting) last.add_unreachable(text);
  return tell(last);
}

}  // namespace rayo::head
