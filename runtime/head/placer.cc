#include "runtime/head/placer.h"

#include "runtime/base/text.h"
#include "runtime/base/units.h"
#include "runtime/rpc/actor_lease.h"
#include "runtime/rpc/proto_demand.h"

namespace rayo::head {

using base::cat;

namespace {

std::string wanted_text(const scheduler::Demand& demand) {
  auto text = scheduler::needed(demand).text();
  if (demand.gpu_memory_bytes > 0) text += cat(" with ", base::format_size(demand.gpu_memory_bytes), " of GPU memory");
  return text;
}

// No node takes more at once, and of demands that hold nothing any count would fit.
constexpr int kMostLeasesAtOnce = 1000;

int lease_count(const proto::PlaceLeasesRequest& request) { return std::clamp(request.count(), 1, kMostLeasesAtOnce); }

bool same_ask(const proto::PlaceLeasesRequest& a, const Waiting& b, const std::string& shape) {
  return !b.is_actor() && b.shape == shape && a.shape() == b.request.shape() &&
         rpc::from_proto<ProcessId>(a.process()) == rpc::from_proto<ProcessId>(b.request.process()) &&
         rpc::from_proto<NodeId>(a.node()) == rpc::from_proto<NodeId>(b.request.node()) && a.what() == b.request.what();
}

}  // namespace

void Placer::settle(ActorChanges changes, Outcome& out) {
  out.persist.append(std::move(changes.persist));
  for (auto& end : changes.end) *out.send(end.node).mutable_end_actor() = std::move(end.order);
  for (const auto& wanted : changes.place) enqueue(wanted);
  for (auto id : changes.deaths) tell_death(id);
  for (auto id : changes.changed) {
    const auto* actor = state_.actors.find(id);
    if (actor && actor->info.state() == proto::ALIVE) {
      state_.starting.erase(id);
    } else if (!actor || !actor->on_node()) {
      state_.nodes.unweigh(id);
      state_.starting.erase(id);
      if (!actor || actor->dead()) state_.queue.remove_actor(id);
    }
    if (!actor) continue;
    tell_watchers(id, out);
    if (actor->dead() && actor->spec.detached())
      end_job(rpc::from_proto<JobId>(actor->spec.job()), actor->info.death(), out);
  }
  for (auto id : changes.resend) {
    auto placed = state_.starting.find(id);
    if (placed == state_.starting.end()) continue;
    auto& again = placed->second;
    if (auto reserved = state_.nodes.reserve(again.node, again.item.demand, 1)) again.reserved = *reserved;
    send_start(again, out);
  }
}

void Placer::enqueue(const ToPlace& wanted) {
  auto now = state_.now();
  auto placed = state_.starting.find(wanted.actor);
  if (wanted.refused_by && placed != state_.starting.end()) {
    state_.nodes.cancel(wanted.refused_by, placed->second.reserved.request);
    state_.queue.put_back(std::move(placed->second.item), wanted.refused_by, wanted.reasons, now);
    state_.starting.erase(placed);
    return;
  }
  // What began on a node that died before its record was written waits already.
  if (!state_.queue.find_actor(wanted.actor)) state_.queue.add(wish_of(wanted.actor, wanted.wait), now);
}

Waiting Placer::wish_of(ActorId id, base::Duration wait) const {
  const auto& spec = state_.actors.find(id)->spec;
  const auto* job = state_.jobs.find(rpc::from_proto<JobId>(spec.job()));
  return {.actor = id,
          .job = rpc::from_proto<JobId>(spec.job()),
          .message = spec.demand(),
          .demand = rpc::from_proto(spec.demand()),
          .what = spec.class_name(),
          .prefer = job ? rpc::from_proto<NodeId>(job->node()) : NodeId{},
          .not_before = base::deadline_after(state_.now(), wait)};
}

void Placer::adopt(ActorId id, NodeId node, Outcome& out) {
  Placed placed{state_.queue.numbered(wish_of(id, {}), state_.now()), node, {}};
  state_.nodes.weigh(id, node, scheduler::soft_load(placed.item.demand));
  begin(std::move(placed), out);
}

void Placer::tell_death(ActorId id) {
  const auto* actor = state_.actors.find(id);
  if (!actor) return;
  auto text = cat(actor_text(actor->spec), " died: ", actor->info.death().text());
  const auto* waiting = state_.queue.find_actor(id);
  if (waiting) {
    auto wait = waiting->not_before - state_.now();
    base::append(text, wait > base::Duration{} ? cat("; it is started again in ", base::format_duration(wait))
                                               : std::string("; it is started again"));
  }
  state_.events.add(state_.now_us(), waiting ? "warning" : "error", std::move(text));
}

void Placer::tell_watchers(ActorId id, Outcome& out) {
  const auto* actor = state_.actors.find(id);
  for (auto node : actor->watchers) *out.send(node).mutable_actor() = actor->info;
}

void Placer::send_start(const Placed& placed, Outcome& out) {
  const auto* actor = state_.actors.find(placed.item.actor);
  auto& down = out.send(placed.node);
  down.set_request(placed.reserved.request);
  auto* start = down.mutable_start_actor();
  *start->mutable_spec() = actor->spec;
  start->set_incarnation(actor->info.incarnation());
  rpc::to_proto(rpc::lease_of(placed.item.actor, actor->info.incarnation()), start->mutable_lease());
}

void Placer::place_actor(Placed placed, Outcome& out) {
  send_start(placed, out);
  begin(std::move(placed), out);
}

void Placer::begin(Placed placed, Outcome& out) {
  auto id = placed.item.actor;
  ActorChanges changes;
  state_.actors.start(id, placed.node, state_.now_us(), changes);
  state_.starting.insert_or_assign(id, std::move(placed));
  settle(std::move(changes), out);
}

void Placer::send_grant(Placed placed, Outcome& out) {
  auto& down = out.send(placed.node);
  down.set_request(placed.reserved.request);
  auto* grant = down.mutable_grant();
  const auto& request = placed.item.request;
  *grant->mutable_demand() = request.demand();
  grant->set_count(placed.reserved.count);
  *grant->mutable_requester() = request.process();
  *grant->mutable_job() = request.job();
  *grant->mutable_package() = request.package();
  *grant->mutable_from_node() = request.node();
  grant->set_what(request.what());
  auto key = std::pair(placed.node, placed.reserved.request);
  state_.granting.emplace(key, std::move(placed));
}

void Placer::pump(Outcome& out) {
  if (state_.queue.empty()) return;
  for (auto& placed : state_.queue.pump(state_.nodes, state_.now())) {
    placed.item.is_actor() ? place_actor(std::move(placed), out) : send_grant(std::move(placed), out);
  }
}

std::string Placer::reasons_of(const Waiting& item) const {
  std::vector<std::string> texts;
  for (const auto& reason : state_.queue.reasons(item, state_.nodes)) {
    texts.push_back(
        cat(reason.code(), ": ", reason.text(), reason.nodes() > 1 ? cat(" (", reason.nodes(), " nodes)") : ""));
  }
  return base::join(texts, "; ");
}

std::string Placer::why_never(const Waiting& item) const {
  return cat(item.is_actor() ? "actor " : "task ", item.what, " asks for ", wanted_text(item.demand),
             ", which no living node could ever hold: ", reasons_of(item));
}

void Placer::notify(const Waiting& item, Outcome& out) {
  const bool missing = worker_missing(item);
  auto text =
      missing ? cat(item.is_actor() ? "actor " : "task ", item.what, " waits: ", reasons_of(item)) : why_never(item);
  state_.events.add(state_.now_us(), "warning", text);
  const auto* job = state_.jobs.find(item.job);
  if (!job) return;
  auto limit = base::span_of_ms(item.message.schedule_timeout_ms());
  text += limit > 0ms && !missing ? cat("; given up after ", base::format_duration(limit))
                                  : std::string("; it waits for a node that can");
  auto* notice = out.send(rpc::from_proto<NodeId>(job->node())).mutable_notice();
  rpc::to_proto(item.job, notice->mutable_job());
  notice->mutable_notice()->set_text(std::move(text));
}

void Placer::give_up(const Waiting& item, Outcome& out) {
  auto why = failure(proto::UNSCHEDULABLE, why_never(item),
                     "add a node that has it, or ask for less; `rayo status` shows what there is");
  state_.events.add(state_.now_us(), "error", why.text());
  if (item.is_actor()) {
    ActorChanges changes;
    state_.actors.end(item.actor, death_record(proto::START_FAILED, {}, why.text(), state_.now_us()), &why, changes);
    settle(std::move(changes), out);
    return;
  }
  LeaseAnswer answer{item.ticket, {}, {}};
  *answer.reply.mutable_failure() = std::move(why);
  out.answers.push_back(std::move(answer));
}

void Placer::tick(Outcome& out) {
  if (state_.queue.empty()) return;
  auto now = state_.now();
  state_.queue.unasked(now);
  for (const auto* item : state_.queue.notices(state_.nodes, now)) notify(*item, out);
  for (const auto& item : state_.queue.unschedulable(state_.nodes, now)) give_up(item, out);
  pump(out);
}

std::optional<proto::Failure> Placer::refusal(const proto::Demand& demand, const std::string& what) const {
  const auto node = rpc::from_proto<NodeId>(demand.node());
  if (!node || demand.node_soft() || state_.nodes.knows(node)) return std::nullopt;
  return failure(proto::UNSCHEDULABLE,
                 cat(what, " is bound to node ", node.hex(), ", which this cluster does not know"),
                 "`rayo list nodes` shows the ids; with soft affinity another node will do");
}

uint64_t Placer::ask_leases(const proto::PlaceLeasesRequest& request, Outcome& out) {
  auto demand = rpc::from_proto(request.demand());
  auto shape = scheduler::shape_key(demand);
  for (const auto& item : state_.queue.items()) {
    if (!same_ask(request, item, shape)) continue;
    auto* same = state_.queue.find(item.ticket);
    same->count = lease_count(request);
    same->asked_until = base::kForever;
    same->request = request;
    return same->ticket;
  }
  auto now = state_.now();
  Waiting item{.job = rpc::from_proto<JobId>(request.job()),
               .message = request.demand(),
               .demand = std::move(demand),
               .what = request.what(),
               .prefer = rpc::from_proto<NodeId>(request.node()),
               .count = lease_count(request),
               .request = request};
  auto ticket = state_.queue.add(std::move(item), now);
  pump(out);
  return ticket;
}

void Placer::grant_reply(NodeId node, uint64_t request, const proto::GrantReply& reply, Outcome& out) {
  auto found = state_.granting.find({node, request});
  if (found == state_.granting.end()) {
    proto::PlaceLeasesReply nobodys;
    *nobodys.mutable_leases() = reply.leases();
    return_leases({0, node, nobodys}, out);
    return;
  }
  auto placed = std::move(found->second);
  state_.granting.erase(found);
  LeaseAnswer answer{placed.item.ticket, node, {}};
  for (const auto& lease : reply.leases()) {
    if (lease.has_failure()) {
      *answer.reply.mutable_failure() = lease.failure();
    } else {
      *answer.reply.add_leases() = lease;
    }
  }
  if (answer.reply.leases().empty() && !answer.reply.has_failure()) {  // its resources went to somebody nearer
    state_.nodes.cancel(node, request);
    state_.queue.put_back(std::move(placed.item), node, {reply.reasons().begin(), reply.reasons().end()}, state_.now());
    pump(out);
    return;
  }
  if (!answer.reply.leases().empty()) answer.reply.clear_failure();
  out.answers.push_back(std::move(answer));
}

void Placer::return_leases(const LeaseAnswer& answer, Outcome& out) {
  for (const auto& lease : answer.reply.leases()) {
    *out.send(answer.node).mutable_end_lease()->mutable_lease() = lease.lease();
  }
}

void Placer::node_died(NodeId node) {
  for (auto at = state_.granting.lower_bound({node, 0}); at != state_.granting.end() && at->first.first == node;) {
    state_.nodes.cancel(node, at->first.second);  // where it only lost its stream
    state_.queue.put_back(std::move(at->second.item), {}, {}, state_.now());
    at = state_.granting.erase(at);
  }
}

void Placer::end_job(JobId job, const proto::DeathRecord& why, Outcome& out) {
  if (!state_.jobs.end(job, why, out.persist)) return;
  auto record = why;
  record.set_kind(proto::DRIVER_GONE);
  record.set_text(cat("its driver is gone: ", why.text()));
  ActorChanges changes;
  state_.actors.end_job(job, record, changes);
  settle(std::move(changes), out);
  for (const auto& item : state_.queue.remove_job(job)) {
    LeaseAnswer answer{item.ticket, {}, {}};
    *answer.reply.mutable_failure() = failure(proto::CANCELLED, "its job has ended");
    out.answers.push_back(std::move(answer));
  }
  state_.key_value.end_namespace(job_namespace(job), out.persist);
  *out.send({}).mutable_job() = *state_.jobs.find(job);
  for (JobId program : state_.jobs.programs_of(job)) end_job(program, why, out);
}

}  // namespace rayo::head
