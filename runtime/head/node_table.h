// The nodes: who lives, what is free there, and what was promised there but is not yet in the node's own report.
// Decides; does no I/O, time is an argument.
//
//   alive --no beat for suspect_after--> suspect --refused: dead_after_refused, silent: dead_after_silent--> dead
//     ^---------------- beat ---------------'                            (both counted from the last beat)
//
// Invariants:
//   1. dead is final for a life: what comes later under the same id registers again, and finds nothing of what it had;
//   2. of two lives of one id only the newer (larger incarnation) is heard;
//   3. free (as placement sees it) = the last report - reservations that the report does not reckon with yet.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/head/timeouts.h"
#include "runtime/proto/head.pb.h"
#include "scheduler/placement.h"

namespace rayo::head {

struct NodeLimits {
  base::Duration suspect_after = 1s;
  base::Duration dead_after_refused = 3s;
  base::Duration dead_after_silent = 10s;
};

class NodeTable {
 public:
  struct Reservation {
    scheduler::Demand demand;
    std::vector<scheduler::Holding> holdings;
  };
  struct Node {
    proto::NodeInfo info;  // state and last seen are filled in by describe()
    uint64_t incarnation = 0;
    base::TimePoint last_beat;
    bool refused = false;                      // its port refused a connection since the last beat
    std::map<uint64_t, Reservation> reserved;  // by NodeDown.request
    std::vector<proto::PendingShape> pending;
  };
  enum class Arrival { kNew, kSameLife, kNewLife, kOld };
  struct Change {
    NodeId node;
    scheduler::NodeState to = scheduler::NodeState::kAlive;
    proto::DeathRecord death;  // where dead
  };
  struct Reserved {
    uint64_t request = 0;
    int count = 0;
  };

  explicit NodeTable(NodeLimits limits = {}, uint64_t first_request = 1)
      : limits_(limits), next_request_(first_request) {}

  // What a registering node is to us. kNewLife: the caller settles the old life's death before it goes on with put().
  Arrival arrival(const proto::Register& registering) const;
  // Enters the node as alive. What was promised on an earlier stream is forgotten: what arrived is in the figures that
  // it registers with, what did not is promised again.
  void put(const proto::Register& registering, base::TimePoint now);
  proto::BeatReply beat(const proto::BeatRequest& beat, base::TimePoint now, std::vector<Change>& changes);
  // States that time has changed. A node that died is out of the view at once.
  std::vector<Change> tick(base::TimePoint now, int64_t now_us);
  // When tick() will have something to tell if no beat comes.
  base::TimePoint due() const;
  void set_refused(NodeId id, bool refused);
  bool any_suspect() const;
  // Leaves, or is replaced: out of the view, kept among the dead.
  void bury(NodeId id, const proto::DeathRecord& why);
  void forget_dead(int64_t now_us);

  void report(NodeId id, const proto::ResourceReport& report);
  // Up to `count` leases of the demand on this node, taken from what placement sees; nullopt where none fits.
  std::optional<Reserved> reserve(NodeId id, const scheduler::Demand& demand, int count);
  // The node did not take it.
  void cancel(NodeId id, uint64_t request);
  // An actor weighs on a node beyond what it holds (scheduler::soft_load).
  void weigh(ActorId actor, NodeId node, scheduler::Resources load);
  void unweigh(ActorId actor);

  const Node* find(NodeId id) const;  // the living
  // It lives, or died and may come back: what was never here, or died long ago, will not come under that id.
  bool knows(NodeId id) const;
  const std::unordered_map<NodeId, Node>& all() const { return nodes_; }
  const std::deque<proto::NodeInfo>& dead() const { return dead_; }
  const scheduler::ClusterView& view() const { return view_; }
  // The message of a node as of now.
  proto::NodeInfo describe(const Node& node, base::TimePoint now) const;

 private:
  void rebuild(NodeId id, Node& node);
  void stall(base::TimePoint now);
  base::Duration dead_after(const Node& node) const;

  NodeLimits limits_;
  uint64_t next_request_;
  std::unordered_map<NodeId, Node> nodes_;
  std::deque<proto::NodeInfo> dead_;
  scheduler::ClusterView view_;
  std::unordered_map<ActorId, std::pair<NodeId, scheduler::Resources>> weights_;
  std::optional<base::TimePoint> last_tick_;
};

}  // namespace rayo::head
