#include "runtime/raylet/local_starts.h"

#include <utility>

#include "runtime/rpc/proto_demand.h"
#include "scheduler/placement.h"

namespace rayo::raylet {

bool may_start_here(const proto::ActorSpec& spec, const Job* job, const scheduler::ViewNode& here) {
  if (!spec.name().empty() || spec.detached()) return false;
  const bool preferred = job && job->node == here.id;
  const scheduler::Demand demand = rpc::from_proto(spec.demand());
  return preferred && scheduler::check(demand).ok() && scheduler::chosen_if_preferred(demand, here);
}

bool LocalStarts::hold_back(const proto::ActorInfo& info) {
  auto found = held_back_.find(rpc::from_proto<ActorId>(info.actor()));
  if (found == held_back_.end()) return false;
  found->second.push_back(info);
  return true;
}

std::vector<proto::ActorInfo> LocalStarts::end(ActorId actor) {
  auto node = held_back_.extract(actor);
  return node.empty() ? std::vector<proto::ActorInfo>() : std::move(node.mapped());
}

}  // namespace rayo::raylet
