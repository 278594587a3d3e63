#include "runtime/head/node_table.h"

#include <algorithm>

#include "runtime/base/text.h"
#include "runtime/base/units.h"
#include "runtime/head/records.h"
#include "runtime/rpc/proto_demand.h"

namespace rayo::head {

using base::cat;
using scheduler::NodeState;

namespace {

NodeId id_of(const proto::NodeInfo& info) { return rpc::from_proto<NodeId>(info.node()); }

std::string node_text(const proto::NodeInfo& info) {
  return cat("node ", info.hostname(), " (", short_hex(info.node()), ", ", info.address(), ")");
}

// A node stands once: among the living, or among the dead with its last death.
void forget_death(std::deque<proto::NodeInfo>& dead, NodeId id) {
  std::erase_if(dead, [&](const proto::NodeInfo& one) { return id_of(one) == id; });
}

}  // namespace

NodeTable::Arrival NodeTable::arrival(const proto::Register& registering) const {
  const auto* known = find(id_of(registering.node()));
  if (!known) return Arrival::kNew;
  if (registering.incarnation() < known->incarnation) return Arrival::kOld;
  return registering.incarnation() == known->incarnation ? Arrival::kSameLife : Arrival::kNewLife;
}

void NodeTable::put(const proto::Register& registering, base::TimePoint now) {
  auto id = id_of(registering.node());
  forget_death(dead_, id);
  auto& node = nodes_[id];
  node.info = registering.node();
  node.incarnation = registering.incarnation();
  node.last_beat = now;
  node.refused = false;
  node.info.clear_death();
  node.reserved.clear();
  rebuild(id, node);
}

void NodeTable::rebuild(NodeId id, Node& node) {
  const auto* known = view_.find(id);
  scheduler::ViewNode fresh{.id = id,
                            .name = node.info.hostname(),
                            .labels = {node.info.labels().begin(), node.info.labels().end()},
                            .state = known ? known->state : NodeState::kAlive,
                            .machine = node.info.machine(),
                            .capacity = {rpc::from_proto(node.info.total()), rpc::from_proto(node.info.free()),
                                         rpc::devices_from_proto(node.info.devices())},
                            .soft_load = known ? known->soft_load : scheduler::Resources{}};
  for (auto& [request, reservation] : node.reserved) {
    for (auto& holding : reservation.holdings) {
      if (auto better = fresh.capacity.choose(reservation.demand)) holding = *std::move(better);
      fresh.capacity.take(holding);
    }
  }
  view_.put(std::move(fresh));
}

proto::BeatReply NodeTable::beat(const proto::BeatRequest& beat, base::TimePoint now, std::vector<Change>& changes) {
  proto::BeatReply reply;
  reply.set_number(beat.number());
  auto id = rpc::from_proto<NodeId>(beat.node());
  auto found = nodes_.find(id);
  if (found == nodes_.end() || found->second.incarnation < beat.incarnation()) return reply;  // register (again)
  auto& node = found->second;
  reply.set_known(true);
  if (node.incarnation > beat.incarnation()) {  // invariant 2
    reply.set_replaced(true);
    return reply;
  }
  node.last_beat = now;
  node.refused = false;
  auto* seen = view_.find(id);
  if (seen->state == NodeState::kSuspect) {
    seen->state = NodeState::kAlive;
    changes.push_back({id, NodeState::kAlive, {}});
  }
  return reply;
}

// Beats that nobody read while this process stood still are not missing.
void NodeTable::stall(base::TimePoint now) {
  if (last_tick_ && now - *last_tick_ > kOwnStall) {
    for (auto& [id, node] : nodes_) node.last_beat = std::min(now, node.last_beat + (now - *last_tick_));
  }
  last_tick_ = now;
}

base::Duration NodeTable::dead_after(const Node& node) const {
  return node.refused ? limits_.dead_after_refused : limits_.dead_after_silent;
}

base::TimePoint NodeTable::due() const {
  base::TimePoint earliest = base::kForever;
  for (const auto& [id, node] : nodes_) {
    const bool suspect = view_.find(id)->state == NodeState::kSuspect;
    earliest = std::min(earliest, node.last_beat + (suspect ? dead_after(node) : limits_.suspect_after));
  }
  return earliest;
}

bool NodeTable::any_suspect() const {
  return std::ranges::any_of(view_.nodes(), [](const auto& node) { return node.state == NodeState::kSuspect; });
}

std::vector<NodeTable::Change> NodeTable::tick(base::TimePoint now, int64_t now_us) {
  stall(now);
  std::vector<Change> out;
  for (auto& [id, node] : nodes_) {
    auto silent = now - node.last_beat;
    auto* seen = view_.find(id);
    if (silent >= dead_after(node)) {
      auto text = cat(node_text(node.info), " was lost: no beat for ", base::format_duration(silent),
                      node.refused ? ", its port refuses connections" : "");
      out.push_back({id, NodeState::kDead, death_record(proto::NODE_LOST, id, text, now_us)});
    } else if (seen->state == NodeState::kAlive && silent >= limits_.suspect_after) {
      seen->state = NodeState::kSuspect;
      out.push_back({id, NodeState::kSuspect, {}});
    }
  }
  for (const auto& change : out) {
    if (change.to == NodeState::kDead) bury(change.node, change.death);
  }
  return out;
}

void NodeTable::set_refused(NodeId id, bool refused) {
  if (auto found = nodes_.find(id); found != nodes_.end()) found->second.refused = refused;
}

void NodeTable::bury(NodeId id, const proto::DeathRecord& why) {
  auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  forget_death(dead_, id);
  dead_.push_back(dead_node(std::move(found->second.info), why));
  if (dead_.size() > kDeadNodes) dead_.pop_front();
  nodes_.erase(found);
  view_.remove(id);
  std::erase_if(weights_, [&](const auto& weight) { return weight.second.first == id; });
}

void NodeTable::forget_dead(int64_t now_us) {
  auto shown_us = std::chrono::duration_cast<std::chrono::microseconds>(kDeadNodeShown).count();
  while (!dead_.empty() && dead_.front().death().at_unix_us() + shown_us < now_us) dead_.pop_front();
}

void NodeTable::report(NodeId id, const proto::ResourceReport& report) {
  auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  auto& node = found->second;
  *node.info.mutable_total() = report.total();
  *node.info.mutable_free() = report.free();
  *node.info.mutable_devices() = report.devices();
  node.info.set_object_store_used_bytes(report.object_store_used_bytes());
  node.info.set_workers(report.workers());
  node.info.set_drivers(report.drivers());
  node.pending.assign(report.pending().begin(), report.pending().end());
  const uint64_t applied = report.applied_request();
  std::erase_if(node.reserved, [applied](const auto& entry) { return entry.first <= applied; });
  rebuild(id, node);
}

std::optional<NodeTable::Reserved> NodeTable::reserve(NodeId id, const scheduler::Demand& demand, int count) {
  auto found = nodes_.find(id);
  auto* seen = view_.find(id);
  if (found == nodes_.end() || !seen) return std::nullopt;
  Reservation reservation{demand, {}};
  while (static_cast<int>(reservation.holdings.size()) < count) {
    auto holding = seen->capacity.choose(demand);
    if (!holding) break;
    seen->capacity.take(*holding);
    reservation.holdings.push_back(*std::move(holding));
  }
  if (reservation.holdings.empty()) return std::nullopt;
  Reserved out{next_request_++, static_cast<int>(reservation.holdings.size())};
  found->second.reserved.emplace(out.request, std::move(reservation));
  return out;
}

void NodeTable::cancel(NodeId id, uint64_t request) {
  auto found = nodes_.find(id);
  if (found == nodes_.end() || found->second.reserved.erase(request) == 0) return;
  rebuild(id, found->second);
}

void NodeTable::weigh(ActorId actor, NodeId node, scheduler::Resources load) {
  unweigh(actor);
  if (auto* seen = view_.find(node)) {
    seen->soft_load += load;
    weights_.emplace(actor, std::pair(node, std::move(load)));
  }
}

void NodeTable::unweigh(ActorId actor) {
  auto found = weights_.find(actor);
  if (found == weights_.end()) return;
  if (auto* seen = view_.find(found->second.first)) seen->soft_load -= found->second.second;
  weights_.erase(found);
}

const NodeTable::Node* NodeTable::find(NodeId id) const {
  auto found = nodes_.find(id);
  return found == nodes_.end() ? nullptr : &found->second;
}

bool NodeTable::knows(NodeId id) const {
  return find(id) || std::ranges::any_of(dead_, [&](const proto::NodeInfo& one) { return id_of(one) == id; });
}

proto::NodeInfo NodeTable::describe(const Node& node, base::TimePoint now) const {
  auto out = node.info;
  const auto* seen = view_.find(id_of(node.info));
  out.set_state(scheduler::name_of(seen ? seen->state : NodeState::kDead));
  out.set_last_seen_seconds_ago(std::max(0.0, base::seconds(now - node.last_beat)));
  return out;
}

}  // namespace rayo::head
