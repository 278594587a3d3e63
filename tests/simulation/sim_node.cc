#include "tests/simulation/sim_node.h"

#include "runtime/rpc/actor_lease.h"
#include "runtime/rpc/proto_demand.h"

namespace rayo::simulation {

using scheduler::NodeLedger;

void SimNode::crash() {
  break_stream();
  up_ = false;
  running_.clear();
  granted_.clear();
  jobs_.clear();
  held_.clear();
  ledger_ = NodeLedger(empty_);
  applied_ = 0;
}

void SimNode::start_again() {
  up_ = true;
  partitioned_ = joined_ = false;
  ++incarnation_;
}

void SimNode::break_stream() {
  connected_ = false;
  inbox.clear();
  outbox.clear();
}

proto::ActorInfo SimNode::info_of(ActorId id, const Running& running) const {
  proto::ActorInfo info;
  rpc::to_proto(id, info.mutable_actor());
  info.set_incarnation(running.incarnation);
  info.set_state(running.alive ? proto::ALIVE : proto::STARTING);
  rpc::to_proto(id_, info.mutable_address()->mutable_node());
  return info;
}

proto::Register SimNode::register_message() const {
  proto::Register out;
  auto* node = out.mutable_node();
  rpc::to_proto(id_, node->mutable_node());
  node->set_hostname("sim" + std::to_string(id_.low));
  *node->mutable_total() = rpc::to_proto(ledger_.capacity().total());
  *node->mutable_free() = rpc::to_proto(ledger_.capacity().free());
  for (const auto& device : ledger_.capacity().devices()) {
    auto* said = node->add_devices();
    said->set_uuid(device.uuid);
    rpc::lease_figures_to_proto(device, said);
  }
  out.set_incarnation(incarnation_);
  if (joined_) rpc::to_proto(ClusterId{1, 1}, out.mutable_cluster());
  for (const auto& [id, running] : running_) *out.add_actors() = info_of(id, running);
  return out;
}

void SimNode::attached() {
  connected_ = joined_ = true;
  for (JobId job : jobs_) begin_job(job);
  tell_still_here();
}

void SimNode::tell_still_here() {
  proto::NodeUp still;
  still.mutable_still_here();
  for (JobId job : jobs_) rpc::to_proto(job, still.mutable_still_here()->add_jobs());
  for (ActorId actor : held_) rpc::to_proto(actor, still.mutable_still_here()->add_actors_held());
  say(std::move(still));
}

// What is said without a stream is lost, like what was in it when it broke.
void SimNode::say(proto::NodeUp up) {
  if (connected_) outbox.push_back(std::move(up));
}

void SimNode::begin_job(JobId job) {
  jobs_.insert(job);
  proto::NodeUp up;
  rpc::to_proto(job, up.mutable_job()->mutable_job());
  say(std::move(up));
}

void SimNode::end_job(JobId job) {
  jobs_.erase(job);
  proto::NodeUp up;
  rpc::to_proto(job, up.mutable_job()->mutable_job());
  up.mutable_job()->set_ended(true);
  say(std::move(up));
}

void SimNode::hold(ActorId actor) {
  held_.insert(actor);
  proto::NodeUp up;
  rpc::to_proto(actor, up.mutable_actor_handles()->add_held());
  say(std::move(up));
}

void SimNode::drop(ActorId actor) {
  held_.erase(actor);
  proto::NodeUp up;
  rpc::to_proto(actor, up.mutable_actor_handles()->add_dropped());
  say(std::move(up));
}

void SimNode::say_dead(ActorId id, const Running& running, proto::DeathKind kind) {
  proto::NodeUp up;
  auto info = info_of(id, running);
  info.set_state(proto::DEAD);
  info.mutable_death()->set_kind(kind);
  *up.mutable_actor() = std::move(info);
  say(std::move(up));
}

bool SimNode::kill_one(uint64_t pick) {
  if (running_.empty()) return false;
  auto at = std::next(running_.begin(), static_cast<std::ptrdiff_t>(pick % running_.size()));
  auto [id, running] = *at;
  running_.erase(at);
  ledger_.release(running.lease);
  changed_ = true;
  say_dead(id, running, proto::SIGNAL);
  return true;
}

void SimNode::handle_one() {
  if (inbox.empty()) return;
  auto down = std::move(inbox.front());
  inbox.pop_front();
  if (down.has_start_actor()) start_actor(down);
  if (down.has_end_actor()) end_actor(down.end_actor());
  if (down.has_grant()) grant(down);
  if (down.has_ask_still_here()) tell_still_here();
  if (down.has_end_lease()) end_lease(rpc::from_proto<LeaseId>(down.end_lease().lease()));
}

void SimNode::start_here(const proto::ActorSpec& spec) {
  proto::NodeDown down;
  *down.mutable_start_actor()->mutable_spec() = spec;
  down.mutable_start_actor()->set_incarnation(1);
  auto lease = rpc::lease_of(rpc::from_proto<ActorId>(spec.actor()), 1);
  rpc::to_proto(lease, down.mutable_start_actor()->mutable_lease());
  start_actor(down);
}

void SimNode::start_actor(const proto::NodeDown& down) {
  const auto& start = down.start_actor();
  auto id = rpc::from_proto<ActorId>(start.spec().actor());
  applied_ = std::max(applied_, down.request());
  changed_ = true;
  auto known = running_.find(id);
  if (known != running_.end() && known->second.incarnation == start.incarnation()) return;  // told twice
  Running running{start.incarnation(), rpc::from_proto<LeaseId>(start.lease()), false};
  if (ledger_.acquire(running.lease, rpc::from_proto(start.spec().demand()))) {
    running_.insert_or_assign(id, running);
    return;
  }
  proto::NodeUp up;
  *up.mutable_actor() = info_of(id, running);
  up.mutable_actor()->set_state(proto::PENDING);
  up.mutable_actor()->add_reasons()->set_code("insufficient_cpu");
  say(std::move(up));
}

void SimNode::end_actor(const proto::EndActor& order) {
  auto found = running_.find(rpc::from_proto<ActorId>(order.actor()));
  if (found == running_.end() || found->second.incarnation != order.incarnation()) return;
  auto [id, running] = *found;
  running_.erase(found);
  ledger_.release(running.lease);
  changed_ = true;
  say_dead(id, running, proto::KILLED);
}

void SimNode::grant(const proto::NodeDown& down) {
  proto::NodeUp up;
  up.set_request(down.request());
  applied_ = std::max(applied_, down.request());
  changed_ = true;
  for (int i = 0; i < down.grant().count(); ++i) {
    LeaseId lease{id_.low, (incarnation_ << 32) + ++leases_made_};
    if (!ledger_.acquire(lease, rpc::from_proto(down.grant().demand()))) break;
    granted_.emplace(lease, rpc::from_proto<ProcessId>(down.grant().requester()));
    rpc::to_proto(lease, up.mutable_grant_reply()->add_leases()->mutable_lease());
  }
  up.mutable_grant_reply();
  say(std::move(up));
}

void SimNode::end_lease(LeaseId lease) {
  if (granted_.erase(lease) == 0) return;
  ledger_.release(lease);
  changed_ = true;
}

void SimNode::expire_leases() {
  while (!granted_.empty()) end_lease(granted_.begin()->first);
}

void SimNode::construct_one(bool fails) {
  for (auto& [id, running] : running_) {
    if (running.alive) continue;
    if (fails) {
      auto copy = running;
      ledger_.release(copy.lease);
      changed_ = true;
      say_dead(id, copy, proto::START_FAILED);
      running_.erase(id);
      return;
    }
    running.alive = true;
    proto::NodeUp up;
    *up.mutable_actor() = info_of(id, running);
    say(std::move(up));
    return;
  }
}

void SimNode::report_if_changed() {
  if (!connected_ || !changed_) return;
  changed_ = false;
  proto::NodeUp up;
  auto now = register_message();
  auto* report = up.mutable_resources();
  *report->mutable_total() = now.node().total();
  *report->mutable_free() = now.node().free();
  *report->mutable_devices() = now.node().devices();
  report->set_applied_request(applied_);
  outbox.push_back(std::move(up));
}

}  // namespace rayo::simulation
