#include "runtime/head/core.h"

#include "runtime/base/log.h"
#include "runtime/base/version.h"
#include "runtime/head/views.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::head {

namespace {

NodeLimits limits_of(const base::Config& config) {
  return {.suspect_after = config.duration("nodes.suspect_after"),
          .dead_after_refused = config.duration("nodes.dead_after_refused"),
          .dead_after_silent = config.duration("nodes.dead_after_silent")};
}

}  // namespace

// Requests are numbered from the wall clock on, so that numbers of a head before this one are smaller.
Core::Core(Foundation& foundation, const base::Clock& clock)
    : state(clock, limits_of(foundation.config), static_cast<uint64_t>(unix_us(clock.wall()))),
      line(*foundation.store, [this](Outcome& outcome) { deliver(outcome); }),
      foundation_(foundation) {
  restore(foundation.rows);
  foundation.rows.clear();
}

// Nodes of before count as alive until their beats are missed; their raylets attach again, or are lost like any other.
void Core::restore(const std::vector<Row>& rows) {
  ActorChanges changes;
  for (const auto& row : rows) {
    if (row.table == "actors") {
      proto::StoredActor actor;
      if (!actor.ParseFromString(row.value)) continue;
      auto id = rpc::from_proto<ActorId>(actor.spec().actor());
      auto was = actor.info().state();
      state.actors.restore(std::move(actor));
      if (was == proto::PENDING || was == proto::RESTARTING) changes.place.push_back({id});
    } else if (row.table == "jobs") {
      proto::JobInfo job;
      if (job.ParseFromString(row.value)) state.jobs.restore(std::move(job));
    } else if (row.table == "nodes") {
      proto::Register registering;
      if (!registering.ParseFromString(row.value)) continue;
      state.nodes.put(registering, state.now());
      state.actors.lost_sight_of(rpc::from_proto<NodeId>(registering.node().node()));
    } else if (row.table == "key_value") {
      state.key_value.restore(row.key, row.value);
    }
  }
  Outcome out;
  placer.settle(std::move(changes), out);
  line.submit(std::move(out));
}

void Core::fill(proto::Registered& registered) const {
  const auto& cluster = foundation_.cluster;
  *registered.mutable_cluster() = cluster.cluster();
  registered.set_epoch(cluster.epoch());
  registered.set_cluster_name(cluster.name());
  registered.set_data_secret(cluster.data_secret());
  registered.set_http(http);
  for (const auto& [key, value] : foundation_.config.values()) (*registered.mutable_config())[key] = value;
}

proto::StatusReply Core::status() const {
  auto out = status_of(state);
  const auto& cluster = foundation_.cluster;
  *out.mutable_cluster() = cluster.cluster();
  out.set_name(cluster.name());
  out.set_epoch(cluster.epoch());
  out.set_version(std::string(base::kVersion));
  out.set_started_at_unix_us(cluster.started_at_unix_us());
  out.set_address(address);
  out.set_http(http);
  if (!line.refusal().ok()) {
    auto* event = out.add_events();
    event->set_at_unix_us(state.now_us());
    event->set_severity("error");
    event->set_text(std::string(base::message(line.refusal())));
  }
  return out;
}

std::shared_ptr<Core::LeaseAnswered> Core::expect(uint64_t ticket) {
  auto& waiter = waiters_[ticket];
  if (waiter) waiter->set({});
  waiter = std::make_shared<LeaseAnswered>();
  return waiter;
}

void Core::expect_no_more(uint64_t ticket, const std::shared_ptr<LeaseAnswered>& waiter) {
  auto found = waiters_.find(ticket);
  if (found != waiters_.end() && found->second == waiter) waiters_.erase(found);
}

void Core::deliver(Outcome& outcome) {
  for (const auto& send : outcome.sends) streams.send(send);
  for (auto& answer : outcome.answers) {
    auto found = waiters_.find(answer.ticket);
    if (found != waiters_.end() && found->second->set(answer)) continue;
    Outcome returned;
    placer.return_leases(answer, returned);
    for (const auto& send : returned.sends) streams.send(send);
  }
}

}  // namespace rayo::head
