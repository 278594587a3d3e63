#include "runtime/head/placement_queue.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "runtime/rpc/proto_demand.h"

namespace rayo::head {

namespace {

bool is_worker_start(const proto::Reason& reason) { return reason.code() == "worker_start"; }

}  // namespace

bool worker_missing(const Waiting& item) { return std::ranges::any_of(item.refusal, is_worker_start); }

Waiting PlacementQueue::numbered(Waiting item, base::TimePoint now) {
  item.ticket = next_ticket_++;
  item.since = now;
  item.shape = scheduler::shape_key(item.demand);
  return item;
}

uint64_t PlacementQueue::add(Waiting item, base::TimePoint now) {
  items_.push_back(numbered(std::move(item), now));
  return items_.back().ticket;
}

void PlacementQueue::put_back(Waiting item, NodeId refused_by, std::vector<proto::Reason> reasons,
                              base::TimePoint now) {
  if (refused_by) {
    item.refusal = std::move(reasons);
    auto holds = kRefusalHolds;
    if (worker_missing(item))
      for (int times = item.not_started[refused_by]++; times > 0 && holds < kLongestRefusal; --times) holds *= 2;
    item.refused[refused_by] = base::deadline_after(now, std::min(holds, kLongestRefusal));
  }
  auto at = std::ranges::find_if(items_, [&](const Waiting& other) { return other.ticket > item.ticket; });
  items_.insert(at, std::move(item));
}

void PlacementQueue::remove_actor(ActorId actor) {
  items_.remove_if([&](const Waiting& item) { return item.actor == actor; });
}

void PlacementQueue::remove(uint64_t ticket) {
  items_.remove_if([&](const Waiting& item) { return item.ticket == ticket; });
}

namespace {

template <class Predicate>
std::vector<Waiting> take_if(std::list<Waiting>& items, Predicate predicate) {
  std::vector<Waiting> out;
  for (auto at = items.begin(); at != items.end();) {
    if (predicate(*at)) {
      out.push_back(std::move(*at));
      at = items.erase(at);
    } else {
      ++at;
    }
  }
  return out;
}

}  // namespace

std::vector<Waiting> PlacementQueue::remove_job(JobId job) {
  return take_if(items_, [&](const Waiting& item) { return !item.is_actor() && item.job == job; });
}

// Each node once before any a second time: the sizes of nodes and what else they do decide only the order in a round.
std::optional<NodeId> PlacementQueue::place_apart(const Waiting& item, const NodeTable& nodes,
                                                  std::vector<NodeId> avoid) {
  if (rounds_.size() > kSpreadShapes) rounds_.clear();
  auto& round = rounds_[item.shape];
  const auto refused = static_cast<ptrdiff_t>(avoid.size());
  avoid.insert(avoid.end(), round.begin(), round.end());
  auto node = scheduler::place(item.demand, nodes.view(), {.seed = ++seed_, .avoid = avoid});
  if (!node && !round.empty()) {
    round.clear();
    avoid.erase(avoid.begin() + refused, avoid.end());
    node = scheduler::place(item.demand, nodes.view(), {.seed = ++seed_, .avoid = avoid});
  }
  if (node) round.push_back(*node);
  return node;
}

bool PlacementQueue::place_one(Waiting& item, NodeTable& nodes, base::TimePoint now, std::vector<Placed>& out) {
  std::erase_if(item.refused, [&](const auto& entry) { return entry.second <= now; });
  std::vector<NodeId> avoid;
  for (const auto& [node, until] : item.refused) avoid.push_back(node);
  const bool apart = item.demand.spread;
  auto node =
      apart ? place_apart(item, nodes, std::move(avoid))
            : scheduler::place(item.demand, nodes.view(), {.prefer = item.prefer, .seed = ++seed_, .avoid = avoid});
  if (!node) return false;
  // Of several leases that are to lie apart one is placed, and the requester asks again for the rest.
  auto reserved = nodes.reserve(*node, item.demand, apart ? 1 : item.count);
  if (!reserved) return false;
  out.push_back({std::move(item), *node, *reserved});
  return true;
}

std::vector<Placed> PlacementQueue::pump(NodeTable& nodes, base::TimePoint now) {
  std::vector<Placed> out;
  std::set<std::string> hopeless;  // shapes that fit nowhere in this round
  for (auto at = items_.begin(); at != items_.end();) {
    if (at->not_before > now || hopeless.contains(at->shape)) {
      ++at;
    } else if (place_one(*at, nodes, now, out)) {
      const auto& placed = out.back();
      if (placed.item.is_actor()) nodes.weigh(placed.item.actor, placed.node, scheduler::soft_load(placed.item.demand));
      at = items_.erase(at);
    } else {
      if (at->refused.empty()) hopeless.insert(at->shape);
      ++at;
    }
  }
  return out;
}

namespace {

// Answers could_ever_hold() once for each shape.
class Hopes {
 public:
  explicit Hopes(const NodeTable& nodes) : nodes_(nodes) {}
  bool none_for(const Waiting& item) {
    auto [at, fresh] = known_.try_emplace(item.shape, false);
    if (fresh) at->second = !could_ever_hold(item.demand, nodes_.view());
    return at->second;
  }

 private:
  const NodeTable& nodes_;
  std::map<std::string, bool> known_;
};

}  // namespace

std::vector<Waiting> PlacementQueue::unschedulable(const NodeTable& nodes, base::TimePoint now) {
  Hopes hopes(nodes);
  return take_if(items_, [&](const Waiting& item) {
    auto limit = base::span_of_ms(item.message.schedule_timeout_ms());
    return limit > 0ms && now >= base::deadline_after(item.since, limit) && hopes.none_for(item);
  });
}

std::vector<Waiting> PlacementQueue::unasked(base::TimePoint now) {
  return take_if(items_, [&](const Waiting& item) { return item.asked_until <= now; });
}

std::vector<const Waiting*> PlacementQueue::notices(const NodeTable& nodes, base::TimePoint now) {
  std::vector<const Waiting*> out;
  Hopes hopes(nodes);
  for (auto& item : items_) {
    if (item.told || now < item.since + kNoticeAfter || !(worker_missing(item) || hopes.none_for(item))) continue;
    item.told = true;
    out.push_back(&item);
  }
  return out;
}

Waiting* PlacementQueue::find(uint64_t ticket) {
  auto found = std::ranges::find(items_, ticket, &Waiting::ticket);
  return found == items_.end() ? nullptr : &*found;
}

const Waiting* PlacementQueue::find_actor(ActorId actor) const {
  auto found = std::ranges::find(items_, actor, &Waiting::actor);
  return found == items_.end() ? nullptr : &*found;
}

std::vector<proto::Reason> PlacementQueue::reasons(const Waiting& item, const NodeTable& nodes) const {
  std::vector<proto::Reason> out;
  for (const auto& reason : scheduler::explain(item.demand, nodes.view())) rpc::to_proto(reason, &out.emplace_back());
  const bool fits = out.empty();
  std::ranges::copy_if(item.refusal, std::back_inserter(out),
                       [&](const proto::Reason& reason) { return fits || is_worker_start(reason); });
  return out;
}

}  // namespace rayo::head
