#include "runtime/head/stop_cluster.h"

#include "runtime/base/text.h"
#include "runtime/head/records.h"

namespace rayo::head {

using base::cat;

namespace {

constexpr base::Duration kLook = 20ms;
constexpr base::Duration kDefaultGrace = 10s;

std::string node_text(const proto::NodeInfo& info) { return cat(info.hostname(), " at ", info.address()); }

}  // namespace

base::Status stop_cluster(Core& core, base::Duration grace,
                          const std::function<base::Status(const proto::StopProgress&)>& tell) {
  auto deadline = base::deadline_after(core.state.now(), grace > base::Duration::zero() ? grace : kDefaultGrace);
  std::map<NodeId, std::string> waiting;
  Outcome out;
  for (const auto& [id, node] : core.state.nodes.all()) {
    waiting.emplace(id, node_text(node.info));
    out.send(id).mutable_leave_now()->set_reason("the cluster is stopped");
  }
  core.line.submit(std::move(out));
  while (!waiting.empty() && core.state.now() < deadline && base::sleep_for(kLook)) {
    for (auto at = waiting.begin(); at != waiting.end();) {
      // It has said Leave, or its stream has ended on our word: a raylet that leaves ends its processes first.
      if (core.state.nodes.find(at->first) && core.streams.attached(at->first)) {
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
  last.set_text(waiting.empty() ? "all nodes have left" : cat(waiting.size(), " of the nodes did not answer"));
  for (const auto& [id, text] : waiting) last.add_unreachable(text);
  return tell(last);
}

}  // namespace rayo::head
