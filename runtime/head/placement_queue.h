// What waits for a node: actors, and requests for leases. Tried in the order in which they came, each shape once a
// round; a shape that fits nowhere lets others pass. Decides; no I/O, time is an argument.
//
// Nothing waits without a reason: reasons() names them with figures. What no living node could ever hold is told to its
// driver after kNoticeAfter, and given up as Unschedulable after its schedule_timeout (0: never).
#pragma once

#include <list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/head/node_table.h"
#include "runtime/proto/head.pb.h"

namespace rayo::head {

struct Waiting {
  uint64_t ticket = 0;
  ActorId actor;  // nil: a request for leases
  JobId job;
  proto::Demand message;  // as asked
  scheduler::Demand demand;
  std::string shape;
  std::string what;  // class or function, for people
  NodeId prefer;
  int count = 1;
  base::TimePoint since;
  base::TimePoint not_before;
  base::TimePoint asked_until = base::kForever;  // leases: dropped where nobody asks again
  proto::PlaceLeasesRequest request;             // leases
  std::map<NodeId, base::TimePoint> refused;     // left out until then
  std::map<NodeId, int> not_started;             // how often it could start no worker
  std::vector<proto::Reason> refusal;            // in the words of the last node that refused
  bool told = false;

  bool is_actor() const { return static_cast<bool>(actor); }
};

// A node that had room could start no worker for it.
bool worker_missing(const Waiting& item);

struct Placed {
  Waiting item;
  NodeId node;
  NodeTable::Reserved reserved;
};

class PlacementQueue {
 public:
  // Sets ticket, shape and since. The order of tickets is the order of waiting.
  Waiting numbered(Waiting item, base::TimePoint now);
  uint64_t add(Waiting item, base::TimePoint now);
  // Back in its old place; `refused_by` is left out for a while.
  void put_back(Waiting item, NodeId refused_by, std::vector<proto::Reason> reasons, base::TimePoint now);
  void remove_actor(ActorId actor);
  void remove(uint64_t ticket);
  std::vector<Waiting> remove_job(JobId job);

  // Reserves on the nodes for everything that fits now, and takes it out.
  std::vector<Placed> pump(NodeTable& nodes, base::TimePoint now);
  // Takes out what is to be given up.
  std::vector<Waiting> unschedulable(const NodeTable& nodes, base::TimePoint now);
  std::vector<Waiting> unasked(base::TimePoint now);
  // Each item that no living node could ever hold, or whose worker a node could not start, once, when it has waited long enough.
  std::vector<const Waiting*> notices(const NodeTable& nodes, base::TimePoint now);

  Waiting* find(uint64_t ticket);
  const Waiting* find_actor(ActorId actor) const;
  std::vector<proto::Reason> reasons(const Waiting& item, const NodeTable& nodes) const;
  const std::list<Waiting>& items() const { return items_; }
  bool empty() const { return items_.empty(); }

 private:
  bool place_one(Waiting& item, NodeTable& nodes, base::TimePoint now, std::vector<Placed>& out);
  std::optional<NodeId> place_apart(const Waiting& item, const NodeTable& nodes, std::vector<NodeId> avoid);
  std::list<Waiting> items_;
  uint64_t next_ticket_ = 1;
  uint64_t seed_ = 0;
  std::map<std::string, std::vector<NodeId>> rounds_;  // of shapes that spread: nodes that had one in this round
};

}  // namespace rayo::head
