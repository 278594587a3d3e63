// Every actor of the cluster: its state, its incarnation, its name. Decides; does no I/O and reads no clock.
//
//   PENDING --start()--> STARTING --report(ALIVE)--> ALIVE --report(DEAD), node_died()--> RESTARTING or DEAD
//      ^------report(PENDING: refused)---'                     RESTARTING --start()--> STARTING, one incarnation up
//
// Invariants (tests/runtime/head/actor_directory_test.cc cites the numbers):
//   1. a name belongs to one living actor, from the batch that creates it to the batch that records its death;
//   2. an incarnation only grows, and what a node says of another incarnation, or of an actor that is not its own,
//      changes nothing but sends EndActor to it;
//   3. DEAD is final and its record does not change;
//   4. every act can be repeated with the same result;
//   5. no actor ends for want of handles while a node lives that may hold one without our knowing: each says what it holds
//      (holds_only) after it was out of sight.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <rayo/id.h>

#include "runtime/head/control_store.h"
#include "runtime/head/timeouts.h"
#include "runtime/proto/head.pb.h"
#include "runtime/proto/store.pb.h"

namespace rayo::head {

struct ToPlace {
  ActorId actor;
  base::Duration wait{};               // back off
  NodeId refused_by;                   // nil: nobody
  std::vector<proto::Reason> reasons;  // its words
};
struct ToEnd {
  NodeId node;
  proto::EndActor order;
};
// What an act led to, for its owner to do: rows first.
struct ActorChanges {
  Batch persist;
  std::vector<ToPlace> place;
  std::vector<ToEnd> end;
  std::vector<ActorId> resend;   // StartActor again, to the node that it has
  std::vector<ActorId> changed;  // in state: for watchers
  std::vector<ActorId> deaths;   // whose process ended by itself: for people
};

class ActorDirectory {
 public:
  struct Actor {
    proto::ActorSpec spec;
    proto::ActorInfo info;
    NodeId node;                 // while STARTING or ALIVE
    proto::ProcessAddress last;  // where it was last ALIVE: its log is there
    int short_lives = 0;         // in a row, up to now: for the back-off
    bool committed = false;      // false: its creation is being written; not placed, not told
    std::map<NodeId, bool>
        holders;  // nodes with a handle; true: the node has told of it itself, so it tells of its end
    std::set<NodeId> watchers;

    bool dead() const { return info.state() == proto::DEAD; }
    bool on_node() const { return info.state() == proto::STARTING || info.state() == proto::ALIVE; }
  };
  struct Counts {
    int64_t pending = 0, starting = 0, alive = 0, restarting = 0, dead = 0;
  };
  enum class Creation { kNew, kExisting, kBeingWritten, kRefused };
  struct Created {
    Creation outcome = Creation::kRefused;
    ActorId actor;
    proto::Failure failure;
  };

  explicit ActorDirectory(size_t most_dead = kDeadActors, size_t most_dead_bytes = kDeadActorBytes)
      : most_dead_(most_dead), most_dead_bytes_(most_dead_bytes) {}

  // kNew: write `changes`, then admit() (or abandon() where it could not be written). kExisting: the same id again, or
  // the living holder of the name where the request says get_if_exists. `creator` holds a handle from now on.
  Created create(const proto::CreateActor& request, NodeId creator, int64_t now_us, ActorChanges& changes);
  void admit(ActorId id, ActorChanges& changes);
  void abandon(ActorId id);

  // The actor waits (PENDING or RESTARTING): it is to start there.
  void start(ActorId id, NodeId node, int64_t now_us, ActorChanges& changes);
  // What a node says of one actor: ALIVE, DEAD, or PENDING (refused).
  void report(NodeId from, const proto::ActorInfo& info, int64_t now_us, ActorChanges& changes);
  // What runs on a node whose stream came again in the same life.
  void reconcile(NodeId node, const std::vector<proto::ActorInfo>& running, int64_t now_us, ActorChanges& changes);
  void node_died(NodeId node, const proto::DeathRecord& why, int64_t now_us, ActorChanges& changes);
  void end_job(JobId job, const proto::DeathRecord& why, ActorChanges& changes);
  void handles(NodeId node, const proto::ActorHandles& handles, int64_t now_us, ActorChanges& changes);
  // What this living node holds or drops from now on is not known: its stream broke, or the one who knew it was the head before
  // us. Until holds_only() or node_died().
  void lost_sight_of(NodeId node) { unheard_.insert(node); }
  // Of all that it had told of the node holds these alone.
  void holds_only(NodeId node, const std::set<ActorId>& held, int64_t now_us, ActorChanges& changes);
  // Who is given a handle holds it before it says so.
  void given(ActorId id, NodeId node);
  // Ends the life that it has, to be followed by another: its process gets the order, and its death is settled when its node
  // tells of it. False: none may follow. `incarnation`: the one that is meant, 0: any.
  bool end_life(ActorId id, uint32_t incarnation, proto::DeathRecord why, ActorChanges& changes);
  // Ends it for good: kill, or Unschedulable (`failure` set). Nothing where it is dead or unknown.
  void end(ActorId id, const proto::DeathRecord& why, const proto::Failure* failure, ActorChanges& changes);

  bool watch(ActorId id, NodeId node);  // false: not known
  void unwatch(ActorId id, NodeId node);

  const Actor* find(ActorId id) const;
  std::optional<ActorId> named(const std::string& space, const std::string& name) const;
  const std::unordered_map<ActorId, Actor>& all() const { return actors_; }
  const Counts& counts() const { return counts_; }
  void restore(proto::StoredActor row);

 private:
  Actor* get(ActorId id);
  void set_state(Actor& actor, proto::ActorState state, int64_t now_us);
  void died(Actor& actor, proto::DeathRecord why, const proto::Failure* failure, int64_t now_us, ActorChanges& changes);
  void bury(Actor& actor, const proto::DeathRecord& why, const proto::Failure* failure, ActorChanges& changes);
  void forget_oldest(ActorChanges& changes);
  void without_handles(Actor& actor, int64_t now_us, ActorChanges& changes);
  void heard(NodeId node, int64_t now_us, ActorChanges& changes);

  std::unordered_map<ActorId, Actor> actors_;
  std::map<std::string, ActorId> names_;  // NAMESPACE 0x00 NAME, of the living alone
  Counts counts_;
  std::set<NodeId> unheard_;  // out of sight
  std::set<ActorId> unheld_;  // that nobody holds, as far as is known while nodes are out of sight
  std::deque<ActorId> dead_;
  size_t dead_bytes_ = 0;
  size_t most_dead_;
  size_t most_dead_bytes_;
};

}  // namespace rayo::head
