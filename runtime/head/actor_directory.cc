#include "runtime/head/actor_directory.h"

#include <algorithm>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/base/text.h"
#include "runtime/head/records.h"
#include "runtime/rpc/proto_demand.h"

namespace rayo::head {

using base::cat;
using Actor = ActorDirectory::Actor;

namespace {

ActorId id_of(const Actor& actor) { return rpc::from_proto<ActorId>(actor.spec.actor()); }

constexpr size_t kLongestName = 256;  // lists and terminals show names as they are

std::string name_key(const std::string& space, const std::string& name) { return space + '\0' + name; }
std::string name_key(const Actor& actor) { return name_key(actor.spec.namespace_(), actor.spec.name()); }

void save(const Actor& actor, ActorChanges& changes) {
  proto::StoredActor row;
  *row.mutable_spec() = actor.spec;
  *row.mutable_info() = actor.info;
  rpc::to_proto(actor.node, row.mutable_node());
  changes.persist.put("actors", id_of(actor).hex(), row.SerializeAsString());
}

void order_end(NodeId node, const proto::Id& actor, uint32_t incarnation, const proto::DeathRecord& why,
               ActorChanges& changes) {
  ToEnd end{node, {}};
  *end.order.mutable_actor() = actor;
  end.order.set_incarnation(incarnation);
  *end.order.mutable_why() = why;
  changes.end.push_back(std::move(end));
}

// The user's will was that its next life begins.
bool ends_one_life(const proto::DeathRecord& why) { return why.kind() == proto::KILLED && why.may_restart(); }

// A death that a restart mends: the process or its machine went, not the user's will nor the constructor's error.
bool mendable(const proto::DeathRecord& why) {
  const auto kind = why.kind();
  return kind == proto::EXIT || kind == proto::SIGNAL || kind == proto::OUT_OF_MEMORY || kind == proto::NODE_LOST ||
         kind == proto::STOPPED ||  // its node left in good order
         ends_one_life(why);
}

bool may_restart(const Actor& actor) {
  return actor.spec.max_restarts() < 0 || actor.info.restarts() < actor.spec.max_restarts();
}

base::Duration back_off(int short_lives) {
  if (short_lives <= 1) return {};
  return std::min(kRestartMost, kRestartFirst * (1 << std::min(short_lives - 2, 10)));
}

proto::Failure check(const proto::CreateActor& request) {
  const auto& spec = request.spec();
  if (!rpc::from_proto<ActorId>(spec.actor())) return failure(proto::INVALID, "an actor without an id");
  if (request.get_if_exists() && spec.name().empty()) {
    return failure(proto::INVALID, "get_if_exists asks for an actor by name, and there is none",
                   "give the actor a name, or leave get_if_exists out");
  }
  for (const std::string* name : {&spec.name(), &spec.namespace_()}) {
    const bool controls = std::ranges::any_of(*name, [](unsigned char c) { return c < ' ' || c == 127; });
    const bool text = base::is_utf8(*name);
    if (!controls && text && name->size() <= kLongestName) continue;
    const char* wrong = controls ? "with control characters" : text ? "that is too long" : "that is not UTF-8";
    return failure(proto::INVALID, cat("a name of an actor or its namespace ", wrong, " (", name->size(), " bytes)"),
                   cat("use at most ", kLongestName, " bytes of text on one line"));
  }
  if (spec.detached() && spec.name().empty()) {
    return failure(proto::INVALID, "a detached actor without a name could be found by nobody", "give it a name");
  }
  if (auto bad = scheduler::check(rpc::from_proto(spec.demand())); !bad.ok()) return failure(proto::INVALID, bad);
  return {};
}

Actor make_actor(const proto::ActorSpec& spec, NodeId creator, int64_t now_us) {
  Actor actor;
  actor.spec = spec;
  auto& info = actor.info;
  *info.mutable_actor() = spec.actor();
  info.set_state(proto::PENDING);
  info.set_incarnation(1);
  info.set_name(spec.name());
  info.set_namespace_(spec.namespace_());
  info.set_class_name(spec.class_name());
  info.set_constructor(spec.constructor());
  *info.mutable_job() = spec.job();
  *info.mutable_resources() = spec.demand().resources();
  info.set_max_restarts(spec.max_restarts());
  info.set_max_call_retries(spec.max_call_retries());
  info.set_max_pending_calls(spec.max_pending_calls());
  info.set_detached(spec.detached());
  info.set_since_unix_us(now_us);
  if (creator) actor.holders.emplace(creator, false);
  return actor;
}

int64_t& count_of(ActorDirectory::Counts& counts, proto::ActorState state) {
  switch (state) {
    case proto::STARTING:
      return counts.starting;
    case proto::ALIVE:
      return counts.alive;
    case proto::RESTARTING:
      return counts.restarting;
    case proto::DEAD:
      return counts.dead;
    default:
      return counts.pending;
  }
}

}  // namespace

Actor* ActorDirectory::get(ActorId id) {
  auto found = actors_.find(id);
  return found == actors_.end() ? nullptr : &found->second;
}

const Actor* ActorDirectory::find(ActorId id) const { return const_cast<ActorDirectory*>(this)->get(id); }

std::optional<ActorId> ActorDirectory::named(const std::string& space, const std::string& name) const {
  auto found = names_.find(name_key(space, name));
  return found == names_.end() ? std::nullopt : std::optional(found->second);
}

void ActorDirectory::set_state(Actor& actor, proto::ActorState state, int64_t now_us) {
  --count_of(counts_, actor.info.state());
  ++count_of(counts_, state);
  actor.info.set_state(state);
  actor.info.set_since_unix_us(now_us);
  if (state != proto::PENDING) actor.info.clear_reasons();
  if (!actor.on_node()) {
    actor.node = {};
    actor.info.clear_address();
    actor.info.clear_pid();
  }
}

ActorDirectory::Created ActorDirectory::create(const proto::CreateActor& request, NodeId creator, int64_t now_us,
                                               ActorChanges& changes) {
  const auto& spec = request.spec();
  auto id = rpc::from_proto<ActorId>(spec.actor());
  auto existing = [&](Actor& actor) {
    if (creator) given(id_of(actor), creator);
    return Created{actor.committed ? Creation::kExisting : Creation::kBeingWritten, id_of(actor), {}};
  };
  if (auto* known = get(id)) return existing(*known);
  if (auto bad = check(request); bad.kind() != proto::FAILURE_UNSPECIFIED)
    return {Creation::kRefused, id, std::move(bad)};
  if (!spec.name().empty()) {
    auto [at, fresh] = names_.try_emplace(name_key(spec.namespace_(), spec.name()), id);
    if (!fresh && request.get_if_exists()) return existing(*get(at->second));
    if (!fresh) {
      return {Creation::kRefused, id,
              failure(proto::INVALID,
                      cat("the name '", spec.name(), "' is taken in the namespace '", spec.namespace_(), "' by ",
                          actor_text(get(at->second)->spec)),
                      "use rayo::actor<T>(name), get_if_exists, another name, or kill the one that has it")};
    }
    changes.persist.put("names", at->first, id.hex());
  }
  auto& actor = actors_.emplace(id, make_actor(spec, creator, now_us)).first->second;
  ++counts_.pending;
  save(actor, changes);
  return {Creation::kNew, id, {}};
}

void ActorDirectory::admit(ActorId id, ActorChanges& changes) {
  auto* actor = get(id);
  if (!actor || actor->committed) return;
  actor->committed = true;
  changes.changed.push_back(id);
  if (!actor->dead() && !actor->on_node()) changes.place.push_back({id});
}

void ActorDirectory::abandon(ActorId id) {
  auto* actor = get(id);
  if (!actor || actor->committed || actor->dead()) return;
  if (!actor->spec.name().empty()) names_.erase(name_key(*actor));
  --count_of(counts_, actor->info.state());
  actors_.erase(id);
}

void ActorDirectory::start(ActorId id, NodeId node, int64_t now_us, ActorChanges& changes) {
  auto* actor = get(id);
  RAYO_CHECK(actor && !actor->dead() && !actor->on_node(), "only what waits is placed");
  set_state(*actor, proto::STARTING, now_us);
  actor->node = node;
  rpc::to_proto(node, actor->info.mutable_address()->mutable_node());
  changes.changed.push_back(id);
}

void ActorDirectory::report(NodeId from, const proto::ActorInfo& info, int64_t now_us, ActorChanges& changes) {
  auto* actor = get(rpc::from_proto<ActorId>(info.actor()));
  bool current = actor && actor->on_node() && actor->node == from && actor->info.incarnation() == info.incarnation();
  if (!current) {  // invariant 2
    if (info.state() == proto::ALIVE || info.state() == proto::STARTING) {
      auto why =
          death_record(proto::FENCED, from, "this incarnation is over: another one, or none, is the actor now", now_us);
      order_end(from, info.actor(), info.incarnation(), why, changes);
    }
    return;
  }
  switch (info.state()) {
    case proto::ALIVE:
      if (actor->info.state() != proto::ALIVE) {
        set_state(*actor, proto::ALIVE, now_us);
        changes.changed.push_back(id_of(*actor));
      }
      *actor->info.mutable_address() = info.address();
      actor->last = info.address();
      actor->info.set_pid(info.pid());
      save(*actor, changes);
      return;
    case proto::DEAD:
      died(*actor, info.death(), info.has_failure() ? &info.failure() : nullptr, now_us, changes);
      return;
    case proto::PENDING: {
      if (actor->info.state() == proto::ALIVE) return;
      set_state(*actor, actor->info.restarts() > 0 ? proto::RESTARTING : proto::PENDING, now_us);
      *actor->info.mutable_reasons() = info.reasons();
      changes.changed.push_back(id_of(*actor));
      changes.place.push_back({id_of(*actor), {}, from, {info.reasons().begin(), info.reasons().end()}});
      return;
    }
    default:
      return;
  }
}

void ActorDirectory::reconcile(NodeId node, const std::vector<proto::ActorInfo>& running, int64_t now_us,
                               ActorChanges& changes) {
  std::set<std::pair<ActorId, uint32_t>> there;
  for (const auto& info : running) {
    there.emplace(rpc::from_proto<ActorId>(info.actor()), info.incarnation());
    report(node, info, now_us, changes);
  }
  for (auto& [id, actor] : actors_) {
    if (actor.node != node || !actor.on_node() || there.contains({id, actor.info.incarnation()})) continue;
    if (actor.info.state() == proto::STARTING) {
      changes.resend.push_back(id);
    } else {
      died(actor, death_record(proto::EXIT, node, "it ended while its node could not reach the head", now_us), nullptr,
           now_us, changes);
    }
  }
}

void ActorDirectory::died(Actor& actor, proto::DeathRecord why, const proto::Failure* failure, int64_t now_us,
                          ActorChanges& changes) {
  why.set_incarnation(actor.info.incarnation());
  if (why.pid() == 0) why.set_pid(actor.info.pid());  // a node's death names no process
  bool was_alive = actor.info.state() == proto::ALIVE;
  // A constructor cut short by the loss of its node runs elsewhere, uncounted: nobody has seen this incarnation.
  bool again = !was_alive && (why.kind() == proto::NODE_LOST || why.kind() == proto::STOPPED);
  if (why.kind() != proto::NODE_LOST && why.kind() != proto::STOPPED) changes.deaths.push_back(id_of(actor));
  const bool mends = was_alive ? mendable(why) : ends_one_life(why);
  if (!again && !(mends && may_restart(actor))) {
    bury(actor, why, failure, changes);
    return;
  }
  if (!again) {
    const bool forgiven = std::chrono::microseconds(now_us - actor.info.since_unix_us()) >= kRestartForgiven;
    actor.short_lives = forgiven ? 1 : actor.short_lives + 1;
    actor.info.set_restarts(actor.info.restarts() + 1);
  }
  set_state(actor, actor.info.restarts() > 0 ? proto::RESTARTING : proto::PENDING, now_us);
  *actor.info.mutable_death() = why;
  actor.info.set_incarnation(actor.info.incarnation() + 1);
  save(actor, changes);
  changes.changed.push_back(id_of(actor));
  changes.place.push_back({id_of(actor), again ? base::Duration{} : back_off(actor.short_lives)});
}

void ActorDirectory::bury(Actor& actor, const proto::DeathRecord& why, const proto::Failure* failure,
                          ActorChanges& changes) {
  auto id = id_of(actor);
  set_state(actor, proto::DEAD, why.at_unix_us());
  *actor.info.mutable_death() = why;
  if (failure) *actor.info.mutable_failure() = *failure;
  if (!actor.spec.name().empty()) {
    names_.erase(name_key(actor));
    changes.persist.erase("names", name_key(actor));
  }
  actor.spec.clear_arguments();
  actor.spec.clear_argument_refs();
  actor.spec.clear_argument_values();
  actor.spec.clear_environment();
  actor.holders.clear();
  unheld_.erase(id);
  save(actor, changes);
  changes.changed.push_back(id);
  dead_.push_back(id);
  dead_bytes_ += actor.spec.ByteSizeLong() + actor.info.ByteSizeLong();
  forget_oldest(changes);
}

void ActorDirectory::forget_oldest(ActorChanges& changes) {
  while (dead_.size() > most_dead_ || (dead_bytes_ > most_dead_bytes_ && dead_.size() > 1)) {
    auto id = dead_.front();
    const auto& actor = actors_.at(id);
    dead_bytes_ -= std::min(dead_bytes_, actor.spec.ByteSizeLong() + actor.info.ByteSizeLong());
    changes.persist.erase("actors", id.hex());
    dead_.pop_front();
    actors_.erase(id);  // counts_.dead goes on: it tells how many have died
  }
}

bool ActorDirectory::end_life(ActorId id, uint32_t incarnation, proto::DeathRecord why, ActorChanges& changes) {
  auto* actor = get(id);
  if (!actor || actor->dead() || !may_restart(*actor)) return false;
  const bool meant = incarnation == 0 || incarnation == actor->info.incarnation();
  if (!meant || !actor->on_node()) return true;  // it is over, and the next one is on its way
  why.set_may_restart(true);
  order_end(actor->node, actor->spec.actor(), actor->info.incarnation(), why, changes);
  return true;
}

void ActorDirectory::end(ActorId id, const proto::DeathRecord& why, const proto::Failure* failure,
                         ActorChanges& changes) {
  auto* actor = get(id);
  if (!actor || actor->dead()) return;
  if (actor->on_node()) order_end(actor->node, actor->spec.actor(), actor->info.incarnation(), why, changes);
  auto record = why;
  if (actor->node) rpc::to_proto(actor->node, record.mutable_node());
  record.set_pid(actor->info.pid());
  record.set_incarnation(actor->info.incarnation());
  bury(*actor, record, failure, changes);
}

void ActorDirectory::node_died(NodeId node, const proto::DeathRecord& why, int64_t now_us, ActorChanges& changes) {
  std::vector<ActorId> here, held;
  for (auto& [id, actor] : actors_) {
    actor.watchers.erase(node);
    if (actor.on_node() && actor.node == node) here.push_back(id);
    if (actor.holders.contains(node)) held.push_back(id);
  }
  for (auto id : here) died(*get(id), why, nullptr, now_us, changes);
  for (auto id : held) {
    if (auto* actor = get(id)) {
      actor->holders.erase(node);
      without_handles(*actor, now_us, changes);
    }
  }
  heard(node, now_us, changes);
}

void ActorDirectory::end_job(JobId job, const proto::DeathRecord& why, ActorChanges& changes) {
  std::vector<ActorId> mine;
  for (auto& [id, actor] : actors_) {
    if (rpc::from_proto<JobId>(actor.spec.job()) == job && !actor.dead()) mine.push_back(id);
  }
  for (auto id : mine) end(id, why, nullptr, changes);
}

void ActorDirectory::handles(NodeId node, const proto::ActorHandles& handles, int64_t now_us, ActorChanges& changes) {
  for (const auto& id : handles.held()) {
    auto* actor = get(rpc::from_proto<ActorId>(id));
    if (actor && !actor->dead()) actor->holders[node] = true;
  }
  for (const auto& id : handles.dropped()) {
    auto* actor = get(rpc::from_proto<ActorId>(id));
    if (actor && actor->holders.erase(node) > 0) without_handles(*actor, now_us, changes);
  }
}

void ActorDirectory::holds_only(NodeId node, const std::set<ActorId>& held, int64_t now_us, ActorChanges& changes) {
  proto::ActorHandles now;
  for (ActorId id : held) rpc::to_proto(id, now.add_held());
  for (const auto& [id, actor] : actors_) {
    auto holder = actor.holders.find(node);
    if (holder != actor.holders.end() && holder->second && !held.contains(id)) rpc::to_proto(id, now.add_dropped());
  }
  handles(node, now, now_us, changes);
  heard(node, now_us, changes);
}

void ActorDirectory::heard(NodeId node, int64_t now_us, ActorChanges& changes) {
  if (unheard_.erase(node) == 0 || !unheard_.empty()) return;
  for (ActorId id : std::exchange(unheld_, {}))
    if (auto* actor = get(id)) without_handles(*actor, now_us, changes);
}

void ActorDirectory::given(ActorId id, NodeId node) {
  auto* actor = get(id);
  if (actor && !actor->dead()) actor->holders.emplace(node, false);
}

void ActorDirectory::without_handles(Actor& actor, int64_t now_us, ActorChanges& changes) {
  if (!actor.holders.empty() || actor.dead() || actor.spec.detached()) return;
  if (!unheard_.empty()) return void(unheld_.insert(id_of(actor)));  // 5
  end(id_of(actor), death_record(proto::OUT_OF_SCOPE, {}, "its last handle was dropped", now_us), nullptr, changes);
}

bool ActorDirectory::watch(ActorId id, NodeId node) {
  auto* actor = get(id);
  if (actor) actor->watchers.insert(node);
  return actor != nullptr;
}

void ActorDirectory::unwatch(ActorId id, NodeId node) {
  if (auto* actor = get(id)) actor->watchers.erase(node);
}

void ActorDirectory::restore(proto::StoredActor row) {
  auto id = rpc::from_proto<ActorId>(row.spec().actor());
  Actor actor;
  actor.spec = std::move(*row.mutable_spec());
  actor.info = std::move(*row.mutable_info());
  actor.node = rpc::from_proto<NodeId>(row.node());
  actor.committed = true;
  ++count_of(counts_, actor.info.state());
  if (actor.dead()) {
    dead_.push_back(id);
    dead_bytes_ += actor.spec.ByteSizeLong() + actor.info.ByteSizeLong();
  } else {
    if (!actor.spec.name().empty()) names_.emplace(name_key(actor), id);
    unheld_.insert(id);  // those who hold it say so when they attach again
  }
  actors_.insert_or_assign(id, std::move(actor));
}

}  // namespace rayo::head
