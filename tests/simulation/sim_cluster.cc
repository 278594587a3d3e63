#include "tests/simulation/sim_cluster.h"

#include <algorithm>

#include "runtime/base/text.h"
#include "runtime/rpc/own_job.h"
#include "runtime/rpc/proto_demand.h"

namespace rayo::simulation {

using base::cat;
using head::Outcome;
using scheduler::Amount;
using namespace std::chrono_literals;

namespace {

scheduler::Capacity random_capacity(std::mt19937_64& random, uint64_t n) {
  std::vector<scheduler::Device> devices;
  for (uint64_t i = 0; i < random() % 3; ++i) devices.push_back({cat("gpu-", n, "-", i), 80});
  return {{{"cpu", Amount::of(2 + static_cast<double>(random() % 7))}}, std::move(devices)};
}

}  // namespace

SimCluster::SimCluster(uint64_t seed, int nodes) : random_(seed) {
  for (int n = 1; n <= nodes; ++n) {
    auto number = static_cast<uint64_t>(n);
    nodes_.emplace_back(NodeId{number, number}, random_capacity(random_, number));
  }
  for (auto& node : nodes_) attach(node);
  for (uint64_t n = 1; n <= 3; ++n) jobs_.push_back({n, 1});
}

std::string SimCluster::live(int steps) {
  for (int i = 0; i < steps; ++i) {
    step();
    if (auto broken = check(); !broken.empty()) return cat("step ", i, ": ", broken);
  }
  quieten();
  if (auto broken = check(); !broken.empty()) return cat("at the end: ", broken);
  return check_end();
}

void SimCluster::step() {
  uint64_t what = pick(100);
  if (what < 25) {
    user_step();
  } else if (what < 80) {
    node_step(nodes_[pick(nodes_.size())]);
  } else if (what < 92) {
    pass(std::chrono::milliseconds(100 * (1 + pick(8)) *
                                   (pick(6) == 0 ? 10 : 1)));  // now and then long enough to be lost
  } else {
    fault_step();
  }
}

void SimCluster::create() {
  proto::RelayRequest request;
  ActorId id{random_(), actors_.size() + 1};
  auto* spec = request.mutable_create_actor()->mutable_spec();
  rpc::to_proto(id, spec->mutable_actor());
  auto& job = jobs_[pick(jobs_.size())];
  if (state_.jobs.ended(job)) job = {random_(), 1};
  rpc::to_proto(job, spec->mutable_job());
  spec->set_namespace_("sim");
  if (pick(2)) spec->set_name(cat("name", pick(6)));
  request.mutable_create_actor()->set_get_if_exists(!spec->name().empty() && pick(2));
  spec->set_max_restarts(static_cast<int>(pick(3)));
  if (!spec->name().empty() && pick(3) == 0) {
    spec->set_detached(true);
    rpc::to_proto(rpc::own_job_of(id), request.mutable_own_job()->mutable_job());
    *spec->mutable_job() = request.own_job().job();
  }
  auto* demand = spec->mutable_demand();
  base::Resources resources{{"cpu", Amount::of(0.5 * static_cast<double>(pick(4)))}};
  if (pick(4) == 0) resources.set("gpu", pick(2) ? Amount::of(0.4) : Amount::of(1));
  if (pick(20) == 0) resources.set("cpu", Amount::of(100));  // nobody ever
  *demand->mutable_resources() = rpc::to_proto(resources);
  if (pick(2)) *demand->mutable_to_place() = rpc::to_proto(base::Resources{{"cpu", Amount::of(1)}});
  demand->set_schedule_timeout_ms(3000);
  SimNode& creator = nodes_[pick(nodes_.size())];
  auto node = creator.id();
  if (!state_.nodes.find(node)) return;  // the request comes through an attached raylet
  request.set_started(spec->name().empty() && pick(2) == 0);
  for (int twice = 0; twice < 2; ++twice) {
    Outcome out;
    auto created = requests_.create(node, request, out);
    if (created.outcome != head::ActorDirectory::Creation::kNew) {
      finish(std::move(out));
      return;
    }
    if (!write(out.persist, true)) {
      probes_.insert("a creation refused by a full disk");
      requests_.abandon(id);
      return;
    }
    actors_.push_back(id);
    if (request.started()) {
      probes_.insert("an actor that began before it was written down");
      creator.start_here(*spec);
    }
    Outcome admitted;
    requests_.admit(id, admitted);
    requests_.admit(id, admitted);
    finish(std::move(admitted));
  }
}

void SimCluster::user_step() {
  uint64_t what = pick(10);
  if (what < 6 || actors_.empty()) {
    create();
    return;
  }
  auto id = actors_[pick(actors_.size())];
  auto& node = nodes_[pick(nodes_.size())];
  Outcome out;
  if (what == 6) {
    proto::KillActor kill;
    rpc::to_proto(id, kill.mutable_actor());
    requests_.kill(kill, out);
    requests_.kill(kill, out);
  } else if (what == 7 && node.up()) {
    pick(2) ? node.hold(id) : node.drop(id);
  } else if (what == 8) {
    proto::PlaceLeasesRequest ask;
    rpc::to_proto(node.id(), ask.mutable_node());
    rpc::to_proto(ProcessId{7, 7}, ask.mutable_process());
    *ask.mutable_demand()->mutable_resources() = rpc::to_proto(base::Resources{{"cpu", Amount::of(1)}});
    ask.set_count(static_cast<int>(1 + pick(5)));
    placer_.ask_leases(ask, out);
  } else if (what == 9 && pick(3) == 0) {
    auto& job = jobs_[pick(jobs_.size())];
    auto home = std::ranges::find_if(nodes_, [&](const SimNode& each) { return each.jobs().contains(job); });
    if (home != nodes_.end()) {
      home->end_job(job);
      probes_.insert(home->connected() ? "a job ended" : "a job ended and its node could not tell");
    } else if (node.up() && !state_.jobs.find(job)) {
      node.begin_job(job);
    } else {
      job = {random_(), 1};
    }
  }
  finish(std::move(out));
}

void SimCluster::node_step(SimNode& node) {
  if (!node.up()) {
    if (pick(4) == 0) node.start_again();
    return;
  }
  if (!node.connected()) {
    if (node.reachable() && pick(2)) attach(node);
    return;
  }
  switch (pick(5)) {
    case 0:
    case 1:
      node.handle_one();
      break;
    case 2:
      node.construct_one(pick(12) == 0);
      break;
    case 3:
      node.report_if_changed();
      break;
    default:
      break;
  }
  if (node.outbox.empty()) return;
  auto up = std::move(node.outbox.front());
  node.outbox.pop_front();
  deliver(node, up);
  if (pick(5) == 0 && !up.has_grant_reply()) deliver(node, up);  // everything may come twice
}

void SimCluster::deliver(SimNode& node, const proto::NodeUp& up) {
  Outcome out;
  events_.message(node.id(), up, out);
  if (up.has_still_here()) out_of_sight_.erase(node.id());
  finish(std::move(out));
}

// The head may see it at once, or when the node is back.
void SimCluster::break_stream(SimNode& node) {
  node.break_stream();
  if (pick(2) == 0 || !state_.nodes.find(node.id())) return;
  events_.stream_ended(node.id());
  out_of_sight_.insert(node.id());
}

void SimCluster::fault_step() {
  auto& node = nodes_[pick(nodes_.size())];
  ++faults_;
  switch (pick(7)) {
    case 0:
      node.crash();
      probes_.insert("a raylet crashed");
      break;
    case 1:
      node.partition();
      break_stream(node);
      probes_.insert("a node was cut off");
      break;
    case 2:
      break_stream(node);
      break;
    case 3:
      node.heal();
      break;
    case 4:
      if (node.kill_one(random_())) probes_.insert("an actor's process died");
      break;
    case 5: {
      disk_full_ = !disk_full_;
      store_.fail_with(disk_full_ ? base::failed(absl::StatusCode::kResourceExhausted, "full") : base::Status());
      write({}, false);
      break;
    }
    case 6: {
      if (!node.connected()) break;
      proto::NodeUp up;
      up.mutable_leave();
      Outcome out;
      events_.message(node.id(), up, out);
      finish(std::move(out));
      node.crash();
      probes_.insert("a node left");
      break;
    }
  }
}

void SimCluster::attach(SimNode& node) {
  Outcome out;
  placer_.node_died(node.id());
  auto reply = events_.attach(node.register_message(), out);
  if (node.joined()) {
    out_of_sight_.insert(node.id());
  } else {
    out_of_sight_.erase(node.id());  // a new life holds nothing but what it tells
  }
  if (!reply.has_failure()) {
    node.attached();
  } else {
    node.crash();  // replaced
  }
  finish(std::move(out));
}

void SimCluster::beats() {
  for (auto& node : nodes_) {
    if (!node.reachable()) continue;
    proto::BeatRequest beat;
    rpc::to_proto(node.id(), beat.mutable_node());
    beat.set_incarnation(node.incarnation());
    Outcome out;
    auto reply = events_.beat(beat, out);
    finish(std::move(out));
    if (!reply.known()) {
      if (!node.running().empty()) probes_.insert("a node came back from the dead");
      node.break_stream();
    }
  }
}

void SimCluster::pass(base::Duration span) {
  for (base::Duration gone{}; gone < span; gone += head::kTick) {
    clock_.advance(head::kTick);
    beats();
    for (auto& node : nodes_) {
      if (!node.up()) state_.nodes.set_refused(node.id(), true);
    }
    Outcome out;
    events_.tick(out);
    finish(std::move(out));
  }
}

bool SimCluster::write(const head::Batch& batch, bool promise) {
  auto all = unwritten_;
  all.append(head::Batch(batch));
  if (store_.apply(all).ok()) {
    unwritten_ = {};
    return true;
  }
  if (!promise) unwritten_ = std::move(all);
  return false;
}

void SimCluster::finish(Outcome out) {
  write(out.persist, false);
  for (const auto& send : out.sends) {
    for (auto& node : nodes_) {
      if (node.connected() && (!send.to || send.to == node.id())) node.inbox.push_back(send.message);
    }
  }
  for (const auto& answer : out.answers) {
    if (answer.reply.has_failure()) continue;
    Outcome returned;  // whoever asked is gone, or uses them for no time
    placer_.return_leases(answer, returned);
    finish(std::move(returned));
  }
}

// No more faults: everybody is up, connected, and has time.
void SimCluster::quieten() {
  if (disk_full_) store_.fail_with({});
  disk_full_ = false;
  write({}, false);
  for (int round = 0; round < 120; ++round) {
    for (auto& node : nodes_) {
      node.heal();
      if (!node.up()) node.start_again();
      if (!node.connected()) attach(node);
      for (int i = 0; i < 5; ++i) node.handle_one();
      for (int i = 0; i < 3; ++i) node.construct_one(false);
      node.expire_leases();
      node.report_if_changed();
      while (!node.outbox.empty()) {
        auto up = std::move(node.outbox.front());
        node.outbox.pop_front();
        deliver(node, up);
      }
    }
    pass(100ms);
  }
}

std::string SimCluster::check() {
  for (auto part : {&SimCluster::check_nodes, &SimCluster::check_actors, &SimCluster::check_store}) {
    if (auto broken = (this->*part)(); !broken.empty()) return broken;
  }
  return {};
}

std::string SimCluster::check_nodes() {
  for (const auto& node : nodes_) {
    auto sum = node.ledger().used();
    sum += node.ledger().capacity().free();
    if (sum != node.ledger().capacity().total()) return cat("1: node ", node.id().low, ": ", sum.text());
    for (const auto& [name, amount] : node.ledger().capacity().free().amounts()) {
      if (amount.units < 0) return cat("1: node ", node.id().low, " has ", amount.text(), " ", name);
    }
    const auto* known = state_.nodes.find(node.id());
    const auto died = std::ranges::count_if(state_.nodes.dead(), [&](const proto::NodeInfo& dead) {
      return rpc::from_proto<NodeId>(dead.node()) == node.id();
    });
    if (died + (known ? 1 : 0) > 1) return cat("11: node ", node.id().low, " stands there more than once");
    if (!known) continue;
    auto expected = rpc::from_proto(known->info.free()).get("cpu");
    for (const auto& [request, reservation] : known->reserved) {
      for (const auto& holding : reservation.holdings) expected = expected - holding.amounts.get("cpu");
    }
    if (state_.nodes.view().find(node.id())->capacity.free().get("cpu") != expected)
      return cat("6: node ", node.id().low);
  }
  return {};
}

std::string SimCluster::check_actors() {
  head::ActorDirectory::Counts counts;
  std::map<std::string, int> holders;
  for (const auto& [id, actor] : state_.actors.all()) {
    auto incarnation = actor.info.incarnation();
    auto& [before, was_dead] = seen_[id];
    if (incarnation < before || (was_dead && !actor.dead())) return cat("5: ", id.hex());
    if (actor.dead() && !was_dead && actor.info.death().kind() == proto::OUT_OF_SCOPE) {
      if (auto broken = check_unheld(id); !broken.empty()) return broken;
    }
    before = incarnation;
    was_dead = actor.dead();
    bool waits = actor.info.state() == proto::PENDING || actor.info.state() == proto::RESTARTING;
    auto queued = std::ranges::count(state_.queue.items(), id, &head::Waiting::actor);
    if (auto broken = check_lives(id, actor); !broken.empty()) return broken;
    if (queued != (waits && actor.committed ? 1 : 0))
      return cat("4: ", id.hex(), " stands ", queued, " times in the queue");
    if (state_.starting.contains(id) != (actor.info.state() == proto::STARTING)) return cat("4: starting ", id.hex());
    if (actor.on_node() && !state_.nodes.find(actor.node)) return cat("3: ", id.hex(), " on a lost node");
    if (!actor.dead() && !actor.spec.name().empty() && ++holders[actor.spec.name()] > 1)
      return cat("2: ", actor.spec.name());
    switch (actor.info.state()) {
      case proto::PENDING:
        ++counts.pending;
        break;
      case proto::STARTING:
        ++counts.starting;
        break;
      case proto::ALIVE:
        ++counts.alive;
        break;
      case proto::RESTARTING:
        ++counts.restarting;
        break;
      default:
        ++counts.dead;
    }
  }
  const auto& said = state_.actors.counts();
  if (counts.pending != said.pending || counts.starting != said.starting || counts.alive != said.alive ||
      counts.restarting != said.restarting || counts.dead != said.dead) {
    return "7: counts";
  }
  return {};
}

std::string SimCluster::check_lives(ActorId id, const head::ActorDirectory::Actor& actor) const {
  if (actor.info.restarts() > actor.spec.max_restarts()) return cat("9: ", id.hex(), " was restarted too often");
  const auto* waiting = state_.queue.find_actor(id);
  if (waiting && waiting->not_before > clock_.now() + head::kRestartMost)
    return cat("9: ", id.hex(), " waits too long");
  if (!actor.spec.detached() || !actor.committed) return {};
  const auto* job = state_.jobs.find(rpc::from_proto<JobId>(actor.spec.job()));
  if (!actor.dead()) return job && job->state() == "running" ? "" : cat("10: ", id.hex(), " has lost its job");
  auto kind = actor.info.death().kind();
  if (kind == proto::OUT_OF_SCOPE || kind == proto::DRIVER_GONE)
    return cat("10: ", id.hex(), " ended with somebody else");
  return !job || job->state() == "ended" ? "" : cat("10: ", id.hex(), " left its job behind");
}

std::string SimCluster::check_unheld(ActorId id) const {
  for (const auto& node : nodes_) {
    if (!out_of_sight_.contains(node.id()) || !state_.nodes.find(node.id())) continue;
    if (node.up() && node.held().contains(id))
      return cat("12: ", id.hex(), " ended while node ", node.id().low, ", out of sight, holds it");
  }
  return {};
}

std::string SimCluster::check_store() {
  if (disk_full_) return {};
  std::set<std::string> names, rows;
  auto stored = store_.load_all().value();
  for (const auto& row : stored) {
    if (row.table == "names") names.insert(row.key.substr(4));
    if (row.table == "actors") rows.insert(row.key);
  }
  std::set<std::string> living;
  for (const auto& [id, actor] : state_.actors.all()) {
    if (!actor.dead() && !rows.contains(id.hex())) return cat("2: no row of ", id.hex());
    if (!actor.dead() && !actor.spec.name().empty()) living.insert(actor.spec.name());
  }
  return names == living ? "" : "2: names in the store";
}

std::string SimCluster::check_end() {
  for (const auto& [id, actor] : state_.actors.all()) {
    if (actor.info.state() == proto::STARTING) return cat("8: ", id.hex(), " starts for ever");
    if (!actor.dead() && !actor.spec.detached() && actor.holders.empty())
      return cat("13: ", id.hex(), " lives and nobody holds it");
    if (actor.info.state() != proto::ALIVE) continue;
    auto node = std::ranges::find(nodes_, actor.node, &SimNode::id);
    auto found = node->running().find(id);
    if (found == node->running().end() || found->second.incarnation != actor.info.incarnation()) {
      return cat("8: ", id.hex(), " is called alive and does not run");
    }
  }
  for (const auto& node : nodes_) {
    for (const auto& [id, running] : node.running()) {
      const auto* actor = state_.actors.find(id);
      if (!actor || !actor->on_node() || actor->node != node.id())
        return cat("8: ", id.hex(), " runs unknown to the head");
    }
    if (!state_.nodes.find(node.id())->reserved.empty())
      return cat("8: promises on node ", node.id().low, " that nobody keeps");
    if (node.ledger().leases() != node.running().size())
      return cat("8: leases without a holder on node ", node.id().low);
  }
  for (const auto& [id, job] : state_.jobs.all()) {
    auto home = std::ranges::find(nodes_, rpc::from_proto<NodeId>(job.node()), &SimNode::id);
    if (job.state() == "running" && home != nodes_.end() && !home->jobs().contains(id))
      return cat("14: job ", id.hex(), " runs without its driver");
  }
  for (const auto& [id, actor] : state_.actors.all()) {
    for (const auto& [holder, told] : actor.holders) {
      if (told && !std::ranges::find(nodes_, holder, &SimNode::id)->held().contains(id))
        return cat("14: ", id.hex(), " is held by node ", holder.low, ", which has no handle");
    }
  }
  for (const auto& item : state_.queue.items()) {
    if (item.is_actor() && state_.queue.reasons(item, state_.nodes).empty())
      return cat("8: ", item.what, " waits without a reason");
  }
  return {};
}

}  // namespace rayo::simulation
