// Actors that begin to live on their creator's node while the head still writes them down: where it would place them
// there whatever the other nodes hold, nobody waits for its word. Until it has answered it does not know them, so what
// becomes of them is held back and told to it then. Decides only. One owner (the loop thread).
//
//   if (may_start_here(spec, job, here)) { starts.begin(actor); host.start(...); }
//   if (!starts.hold_back(info)) head.send(info);                 // each news of an actor that runs here
//   for (auto& info : starts.end(actor)) head.send(info);         // the head has written it down, or never will
#pragma once

#include <unordered_map>
#include <vector>

#include <rayo/id.h>

#include "runtime/proto/common.pb.h"
#include "runtime/raylet/jobs.h"
#include "scheduler/cluster_view.h"

namespace rayo::raylet {

// A name may be refused and a detached actor needs a job of its own: those begin when they are written down.
bool may_start_here(const proto::ActorSpec& spec, const Job* job, const scheduler::ViewNode& here);

class LocalStarts {
 public:
  void begin(ActorId actor) { held_back_[actor]; }
  bool under_way(ActorId actor) const { return held_back_.contains(actor); }
  bool hold_back(const proto::ActorInfo& info);
  std::vector<proto::ActorInfo> end(ActorId actor);

 private:
  std::unordered_map<ActorId, std::vector<proto::ActorInfo>> held_back_;
};

}  // namespace rayo::raylet
