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
#include "runtime/raylet/hold_marks.h"
#include "runtime/raylet/jobs.h"
#include "runtime/raylet/local_starts.h"
#include "runtime/raylet/processes.h"

namespace rayo::raylet {

class HeadRequests {
 public:
  HeadRequests(base::Loop& loop, Processes& processes, Jobs& jobs, HeadLink& head);
  ~HeadRequests();

  // create_actor, watch_actor, unwatch_actor, find_actor, kill_actor, key_value, list_nodes.
  void ask(ProcessId from, uint64_t call_id, const proto::ToRaylet& message);
  // True: it is answered from here, when the head knows of the handles. Until then nobody who held them before may let go.
  // A nil process: the raylet itself, for handles inside values.
  bool hold_actors(ProcessId from, uint64_t call_id, const proto::HoldRefs& request);
  // The head has read up to that mark.
  void on_mark(uint64_t number);
  void process_gone(ProcessId process);

  // Starts an actor on this node, where it may begin before the head has heard of it; false: it may not.
  using StartHere = std::function<bool(const proto::ActorSpec&)>;
  // Ends it: the head did not take it.
  using EndHere = std::function<void(ActorId, const proto::Failure&)>;
  void on_create(StartHere start, EndHere end) {
    start_here_ = std::move(start);
    end_here_ = std::move(end);
  }

  // To the head, of an actor that runs here; when it knows of it.
  void report(const proto::ActorInfo& info);
  // It runs here, and the head has not answered yet.
  bool unknown_to_head(ActorId actor) const { return starts_.under_way(actor); }
  // News of an actor, from the head or from this node itself.
  void learn(const proto::ActorInfo& info, ActorCache::Source source);
  std::vector<ProcessId> watchers(ActorId actor) const { return cache_.watchers(actor); }
  // After the head was away: it is told which jobs of this node live, and what we watch and hold.
  void attached_again();
  void tell_still_here();

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
  bool start_here(ProcessId from, proto::ActorSpec spec);
  void create_later(ActorId actor, proto::RelayRequest request);
  void begun(ActorId actor, const base::StatusOr<proto::RelayReply>& answer);
  void watch(ProcessId from, const Question& question);
  void learn_from_answer(ProcessId asker, const proto::ActorInfo& info, ActorCache::Source source);
  void unwatch(ProcessId from, const Question& question);
  base::StatusOr<proto::RelayReply> relay(ProcessId from, const Question& question, bool started = false);
  base::StatusOr<proto::RelayReply> create_detached(JobId programs, proto::RelayRequest request,
                                                    base::TimePoint deadline);
  void reply(ProcessId to, const Question& question, const base::StatusOr<proto::RelayReply>& reply);
  void tell_unwatched(ActorId actor);
  void watch_again(ActorId actor);
  void confirm(ProcessId to, uint64_t call_id, uint64_t mark);

  base::Loop& loop_;
  Processes& processes_;
  Jobs& jobs_;
  HeadLink& head_;
  ActorCache cache_;
  LocalStarts starts_;
  HoldMarks marks_;
  base::WaitList heard_;  // a mark came back
  StartHere start_here_;
  EndHere end_here_;
  std::map<ProcessId, std::unique_ptr<Line>> lines_;
  base::TaskGroup tasks_;
};

}  // namespace rayo::raylet
