#include "runtime/head/views.h"

#include <algorithm>

#include "runtime/base/text.h"
#include "runtime/base/units.h"
#include "runtime/rpc/proto_demand.h"
#include "runtime/rpc/status_json.h"

namespace rayo::head {

using base::cat;

namespace {

constexpr size_t kExamples = 3;

bool meant(const std::string& hex, const std::string& id) {
  return id.size() >= kPrefixDigits && hex.starts_with(base::lower(id));
}

std::vector<proto::NodeInfo> all_nodes(const ClusterState& state) {
  std::vector<proto::NodeInfo> out;
  for (const auto& [id, node] : state.nodes.all()) out.push_back(state.nodes.describe(node, state.now()));
  std::ranges::sort(out, [](const auto& a, const auto& b) { return a.started_at_unix_us() < b.started_at_unix_us(); });
  for (const auto& dead : state.nodes.dead()) {
    out.push_back(dead);
    out.back().set_last_seen_seconds_ago(static_cast<double>(state.now_us() - dead.death().at_unix_us()) / 1e6);
  }
  return out;
}

proto::Resources shown_resources(const scheduler::Demand& demand) { return rpc::to_proto(scheduler::needed(demand)); }

void add_actor_groups(const ClusterState& state, proto::StatusReply& out) {
  std::map<std::string, proto::PendingGroup*> groups;
  for (const auto& item : state.queue.items()) {
    if (!item.is_actor()) continue;
    auto& group = groups[item.shape];
    if (!group) {
      group = out.add_pending();
      group->set_kind("actor");
      *group->mutable_resources() = shown_resources(item.demand);
      group->set_oldest_waiting_seconds(base::seconds(state.now() - item.since));
      for (auto& reason : state.queue.reasons(item, state.nodes)) *group->add_reasons() = std::move(reason);
    }
    group->set_count(group->count() + 1);
    if (group->examples_size() < static_cast<int>(kExamples)) group->add_examples(item.actor.hex());
  }
}

// As it waits at the head, where it does: with the words of who refused it.
Waiting asked(const ClusterState& state, const scheduler::Demand& demand) {
  const std::string shape = scheduler::shape_key(demand);
  for (const auto& item : state.queue.items())
    if (!item.is_actor() && item.shape == shape) return item;
  return {.demand = demand};
}

// What the raylets hold back for their processes; they told the shape, the reasons are made here.
void add_task_groups(const ClusterState& state, proto::StatusReply& out) {
  std::map<std::string, proto::PendingGroup*> groups;
  for (const auto& [id, node] : state.nodes.all()) {
    for (const auto& pending : node.pending) {
      auto demand = rpc::from_proto(pending.demand());
      auto& group = groups[cat(pending.kind(), scheduler::shape_key(demand))];
      if (!group) {
        group = out.add_pending();
        group->set_kind(pending.kind());
        *group->mutable_resources() = shown_resources(demand);
        for (auto& reason : state.queue.reasons(asked(state, demand), state.nodes))
          *group->add_reasons() = std::move(reason);
      }
      group->set_count(group->count() + pending.count());
      double waiting = static_cast<double>(state.now_us() - pending.oldest_unix_us()) / 1e6;
      group->set_oldest_waiting_seconds(std::max(group->oldest_waiting_seconds(), waiting));
      if (!pending.example().empty() && group->examples_size() < static_cast<int>(kExamples))
        group->add_examples(pending.example());
    }
  }
}

const ActorDirectory::Actor* actor_meant(const ClusterState& state, const std::string& id) {
  for (const auto& [key, actor] : state.actors.all()) {
    if (meant(key.hex(), id) || (!actor.dead() && !id.empty() && actor.spec.name() == id)) return &actor;
  }
  return nullptr;
}

std::string duration_since(const ClusterState& state, int64_t at_us) {
  return base::format_duration(std::chrono::microseconds(std::max<int64_t>(0, state.now_us() - at_us)));
}

// "; restarted 2 of 3 times; its life before ended: ...": of an actor that may come back.
std::string lives_text(const proto::ActorInfo& info) {
  std::string out;
  if (info.max_restarts() != 0)
    out =
        cat("; restarted ", info.restarts(), info.max_restarts() < 0 ? "" : cat(" of ", info.max_restarts()), " times");
  if (info.state() != proto::DEAD && info.has_death())
    base::append(out, cat("; its life before ended: ", info.death().text()));
  return out;
}

proto::WhyReply why_actor(const ClusterState& state, const ActorDirectory::Actor& actor) {
  proto::WhyReply out;
  out.set_kind("actor");
  out.set_state(rpc::actor_state_text(actor.info.state()));
  auto since = duration_since(state, actor.info.since_unix_us());
  auto id = rpc::from_proto<ActorId>(actor.spec.actor());
  if (const auto* waiting = state.queue.find_actor(id)) {
    auto each = scheduler::explain_each(waiting->demand, state.nodes.view());
    for (const auto& reason : each) rpc::to_proto(reason, out.add_reasons());
    if (each.empty() || worker_missing(*waiting))
      for (const auto& reason : waiting->refusal) *out.add_reasons() = reason;
    bool ever = could_ever_hold(waiting->demand, state.nodes.view());
    if (waiting->not_before > state.now())
      out.set_text(cat(actor_text(actor.spec), " is started again in ",
                       base::format_duration(waiting->not_before - state.now()), lives_text(actor.info)));
    else
      out.set_text(cat(actor_text(actor.spec), " has waited ", since, " for ",
                       scheduler::needed(waiting->demand).text(), ever ? "" : ", which no living node could ever hold",
                       lives_text(actor.info)));
    if (actor.info.has_death()) *out.mutable_death() = actor.info.death();
  } else if (actor.dead()) {
    out.set_text(
        cat(actor_text(actor.spec), " died ", since, " ago: ", actor.info.death().text(), lives_text(actor.info)));
    *out.mutable_death() = actor.info.death();
    if (actor.info.has_failure()) *out.mutable_failure() = actor.info.failure();
  } else {
    const auto* node = state.nodes.find(actor.node);
    out.set_text(cat(actor_text(actor.spec), " has been ", out.state(), " for ", since,
                     node ? cat(" on ", node->info.hostname()) : "", lives_text(actor.info)));
    if (actor.info.has_death()) *out.mutable_death() = actor.info.death();
  }
  return out;
}

std::string figures(const proto::NodeInfo& info) {
  return cat(rpc::from_proto(info.free()).text(), " of ", rpc::from_proto(info.total()).text(), " is free, ",
             info.workers(), " workers and ", info.drivers(), " drivers run there");
}

std::string sick_devices(const proto::NodeInfo& info) {
  std::string out;
  for (const auto& device : info.devices()) {
    if (device.state() != "ok")
      base::append(out, cat("; GPU ", device.index(), " is ", device.state(), ": ", device.reason()));
  }
  return out;
}

std::optional<proto::WhyReply> why_node(const ClusterState& state, const std::string& id) {
  for (const auto& info : all_nodes(state)) {
    if (!meant(rpc::from_proto<NodeId>(info.node()).hex(), id)) continue;
    proto::WhyReply out;
    out.set_kind("node");
    out.set_state(info.state());
    if (info.has_death()) *out.mutable_death() = info.death();
    out.set_text(info.has_death() ? info.death().text()
                                  : cat("node ", info.hostname(), " at ", info.address(), " was heard ",
                                        base::fixed(info.last_seen_seconds_ago(), 1), " s ago; ", figures(info),
                                        sick_devices(info)));
    return out;
  }
  return std::nullopt;
}

// "2 actors alive, 1 pending": of a job that runs.
std::string actors_of(const ClusterState& state, JobId job) {
  std::map<std::string, int> counts;
  for (const auto& [id, actor] : state.actors.all()) {
    if (rpc::from_proto<JobId>(actor.spec.job()) == job) ++counts[rpc::actor_state_text(actor.info.state())];
  }
  std::string out;
  for (const auto& [name, count] : counts) base::append(out, cat(out.empty() ? "; actors: " : ", ", count, " ", name));
  return out;
}

std::optional<proto::WhyReply> why_job(const ClusterState& state, const std::string& id) {
  for (const auto& [key, job] : state.jobs.all()) {
    if (!meant(key.hex(), id)) continue;
    proto::WhyReply out;
    out.set_kind("job");
    out.set_state(job.state());
    const auto* node = state.nodes.find(rpc::from_proto<NodeId>(job.node()));
    out.set_text(
        cat("job of ", job.program(), " (pid ", job.pid(), node ? cat(" on ", node->info.hostname()) : "", "): "));
    if (job.has_death()) {
      *out.mutable_death() = job.death();
      out.set_text(cat(out.text(), job.state(), ": ", job.death().text()));
    } else {
      out.set_text(cat(out.text(), job.state(), " since ", duration_since(state, job.started_at_unix_us()),
                       actors_of(state, key)));
    }
    return out;
  }
  return std::nullopt;
}

}  // namespace

proto::StatusReply status_of(const ClusterState& state) {
  proto::StatusReply out;
  out.set_reachable(true);
  out.set_as_of_unix_us(state.now_us());
  for (auto& node : all_nodes(state)) *out.add_nodes() = std::move(node);
  const auto& counts = state.actors.counts();
  out.set_actors_pending(counts.pending);
  out.set_actors_starting(counts.starting);
  out.set_actors_alive(counts.alive);
  out.set_actors_restarting(counts.restarting);
  out.set_actors_dead(counts.dead);
  for (const auto& [id, actor] : state.actors.all()) {
    if (!actor.dead() && !actor.spec.name().empty()) *out.add_named_actors() = actor.info;
  }
  add_actor_groups(state, out);
  add_task_groups(state, out);
  const auto& events = state.events.events();
  size_t skip = events.size() - std::min(events.size(), kEventsInStatus);
  for (size_t i = skip; i < events.size(); ++i) *out.add_events() = events[i];
  return out;
}

proto::ListReply list_of(const ClusterState& state, const std::string& what) {
  proto::ListReply out;
  if (what == "nodes") {
    for (auto& node : all_nodes(state)) *out.add_nodes() = std::move(node);
  } else if (what == "actors") {
    for (const auto& [id, actor] : state.actors.all()) {
      auto* info = out.add_actors();
      *info = actor.info;
      const auto* waiting = state.queue.find_actor(id);
      if (!waiting) continue;
      info->clear_reasons();
      for (auto& reason : state.queue.reasons(*waiting, state.nodes)) *info->add_reasons() = std::move(reason);
    }
  } else if (what == "jobs") {
    for (const auto& [id, job] : state.jobs.all()) *out.add_jobs() = job;
  } else {
    *out.mutable_failure() = failure(proto::INVALID, cat("the head lists no '", what, "'"),
                                     "nodes, workers, actors, jobs, tasks or objects");
  }
  return out;
}

proto::WhyReply why_of(const ClusterState& state, const std::string& id) {
  if (const auto* actor = actor_meant(state, id)) return why_actor(state, *actor);
  if (auto node = why_node(state, id)) return *std::move(node);
  if (auto job = why_job(state, id)) return *std::move(job);
  proto::WhyReply out;
  *out.mutable_failure() =
      failure(proto::INVALID, cat("nothing here has the id ", id),
              "give at least 6 digits of an id, or an actor's name; `rayo list actors|workers|nodes|jobs` shows them");
  return out;
}

proto::WhyReply why_process(const ClusterState& state, const proto::WorkerInfo& process) {
  proto::WhyReply out;
  out.set_kind(process.kind());
  out.set_state(process.state());
  const auto* node = state.nodes.find(rpc::from_proto<NodeId>(process.node()));
  std::string where = cat("pid ", process.pid(), node ? cat(" on ", node->info.hostname()) : "");
  if (process.has_death()) {
    *out.mutable_death() = process.death();
    out.set_text(
        cat(where, " ended ", duration_since(state, process.death().at_unix_us()), " ago: ", process.death().text()));
    return out;
  }
  std::string what = process.what().empty() ? "" : cat(", ", process.what());
  if (process.has_actor()) base::append(what, cat(" (", short_hex(process.actor()), ")"));
  out.set_text(cat(where, " has run for ", duration_since(state, process.started_at_unix_us()), what, "; job ",
                   short_hex(process.job())));
  return out;
}

std::optional<LogPlace> log_of(const ClusterState& state, const std::string& id) {
  if (const auto* actor = actor_meant(state, id)) {
    return LogPlace{rpc::from_proto<NodeId>(actor->last.node()), rpc::from_proto<ProcessId>(actor->last.process())};
  }
  for (const auto& [key, node] : state.nodes.all()) {
    if (meant(key.hex(), id)) return LogPlace{key, {}};
  }
  return std::nullopt;
}

}  // namespace rayo::head
