// What workers and drivers ask that only the head can answer: actors, names, key-value, nodes. One process's
// requests go in the order in which it made them (an actor is watched after it was created), different
// processes' side by side. Actor states are cached here (ActorCache), and pushed to who watches.
//
// Loop thread only; handlers do not wait.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "runtime/base/loop/event.h"
#include "runtime/raylet/actor_cache.h"
#include "runtime/raylet/head_link.h"
#include "runtime/raylet/jobs.h"
#include "runtime/raylet/processes.h"

namespace rayo::raylet {

class HeadRequests {
 public:
  HeadRequests(base::Loop& loop, Processes& processes, Jobs& jobs, HeadLink& head);
  ~HeadRequests();

  // create_actor, watch_actor, unwatch_actor, find_actor, kill_actor, key_value, list_nodes.
  void ask(ProcessId from, uint64_t call_id, const proto::ToRaylet& message);
  void hold_actors(ProcessId from, const proto::HoldRefs& request);
  void process_gone(ProcessId process);

  // News of an actor, from the head or from this node itself.
  void learn(const proto::ActorInfo& info, ActorCache::Source source);
  std::vector<ProcessId> watchers(ActorId actor) const { return cache_.watchers(actor); }
  // After the head was away: it is told what we watch and hold.
  void attached_again();

 private:
  struct Question {
    uint64_t call_id = 0;
    proto::ToRaylet message;
    base::TimePoint deadline;
  };
  struct Line {
    base::Queue<Question> questions;
    base::TaskGroup fiber;
  };

  void answer_all(ProcessId from, Line& line);
  void answer(ProcessId from, const Question& question);
  void create(ProcessId from, const Question& question);
  void watch(ProcessId from, const Question& question);
  void unwatch(ProcessId from, const Question& question);
  base::StatusOr<proto::RelayReply> relay(ProcessId from, const Question& question);
  base::StatusOr<proto::RelayReply> create_detached(JobId creators, proto::RelayRequest request,
                                                    base::TimePoint deadline);
  void reply(ProcessId to, const Question& question, const base::StatusOr<proto::RelayReply>& reply);
  void tell_unwatched(ActorId actor);

  base::Loop& loop_;
  Processes& processes_;
  Jobs& jobs_;
  HeadLink& head_;
  ActorCache cache_;
  std::map<ProcessId, std::unique_ptr<Line>> lines_;
  base::TaskGroup tasks_;
};

}  // namespace rayo::raylet
