#include "examples/llm_serving/gateway/router.h"

#include <algorithm>

namespace serving::gateway {
namespace {

constexpr double kLoadingRetry = 2;  // s: a client comes again while a model loads

ApiError refusal_of(const Admission& admission) {
  if (admission.verdict == Admission::Verdict::kNeverFits)
    return bad_request(admission.reason, "messages", "context_length_exceeded");
  if (admission.verdict == Admission::Verdict::kInvalid) return bad_request(admission.reason, "", "invalid_value");
  return overloaded(admission.reason.empty() ? "Every replica is busy and its queue full." : admission.reason,
                    admission.retry_after_s);
}

}  // namespace

const char* name_of(ReplicaState state) {
  switch (state) {
    case ReplicaState::kStarting:
      return "starting";
    case ReplicaState::kLoading:
      return "loading";
    case ReplicaState::kReady:
      return "ready";
    case ReplicaState::kHanging:
      return "hanging";
    case ReplicaState::kSuspect:
      return "suspect";
    case ReplicaState::kDead:
      return "restarting";
    case ReplicaState::kDraining:
      return "draining";
  }
  return "";
}

void Router::add(ReplicaId replica, int32_t slots, Instant now) { replicas_.try_emplace(replica, slots, now); }

void Router::drain(ReplicaId replica) {
  if (const auto found = replicas_.find(replica); found != replicas_.end()) found->second.draining = true;
}

bool Router::idle(ReplicaId replica) const {
  const auto found = replicas_.find(replica);
  return found == replicas_.end() || found->second.in_flight.empty();
}

Actions Router::remove(ReplicaId replica, Instant now) {
  Actions out = died(replica, now);
  replicas_.erase(replica);
  return out;
}

Actions Router::answered(ReplicaId id, const EngineStatus& status, Instant now) {
  Actions out;
  const auto found = replicas_.find(id);
  if (found == replicas_.end()) return out;
  Replica& replica = found->second;
  replica.last_answer = now;
  replica.pace.answered(status, now);
  replica.status = status;
  const bool ready = status.state == "ready";
  replica.state = ready ? ReplicaState::kReady : ReplicaState::kLoading;
  if (ready) {
    was_ready_ = true;
    if (status.waiting == 0) replica.full = false;
    replica.prefixes.resize(std::max<size_t>(1024, static_cast<size_t>(std::max(0, status.kv_tokens)) / kBlockTokens));
    place_waiting(now, out);
  }
  return out;
}

Actions Router::died(ReplicaId id, Instant now) {
  Actions out;
  const auto found = replicas_.find(id);
  if (found == replicas_.end()) return out;
  found->second.state = ReplicaState::kDead;
  found->second.prefixes.clear();
  found->second.full = false;
  lose_all(id, false, "its engine died", now, out);
  return out;
}

void Router::stepped(ReplicaId id, Instant now) {
  if (const auto found = replicas_.find(id); found != replicas_.end()) found->second.pace.stepped(now);
}

Actions Router::submit(Ticket ticket, std::span<const Token> prompt, Instant now) {
  Actions out;
  Flight& flight = flights_[ticket];
  flight.blocks = block_hashes(prompt);
  flight.waits_since = now;
  if (closed_) {
    fail(ticket, unavailable("The service is stopping.", kLoadingRetry), out);
  } else if (!ready()) {
    fail(ticket, not_ready(), out);
  } else if (!place(ticket, flight, out)) {
    fail(ticket, refusal_of({.verdict = Admission::Verdict::kFull, .retry_after_s = 1}), out);
  }
  return out;
}

Actions Router::refused(Attempt attempt, const Admission& admission, Instant now) {
  Actions out;
  const std::optional<Ticket> ticket = ticket_of(attempt);
  if (!ticket) return out;
  Flight& flight = flights_.at(*ticket);
  const ReplicaId replica = *flight.replica;
  detach(flight);
  if (admission.verdict != Admission::Verdict::kFull) {
    fail(*ticket, refusal_of(admission), out);
    return out;
  }
  if (const auto found = replicas_.find(replica); found != replicas_.end()) found->second.full = true;
  flight.refusals.insert(replica);
  flight.waits_since = now;
  if (place(*ticket, flight, out)) return out;
  if (flight.losses == 0) fail(*ticket, refusal_of(admission), out);
  return out;  // one that was accepted before waits
}

Actions Router::failed(Attempt attempt, const std::string& why, Instant now) {
  Actions out;
  if (const std::optional<Ticket> ticket = ticket_of(attempt)) lose(*ticket, false, why, now, out);
  return out;
}

Actions Router::ended(Ticket ticket) {
  Actions out;
  const auto found = flights_.find(ticket);
  if (found == flights_.end()) return out;
  Flight& flight = found->second;
  if (flight.replica) {
    out.push_back({.kind = Action::Kind::kCancel, .replica = *flight.replica, .attempt = flight.attempt});
    if (const auto replica = replicas_.find(*flight.replica); replica != replicas_.end()) replica->second.full = false;
  }
  detach(flight);
  flights_.erase(found);
  return out;
}

Actions Router::tick(Instant now) {
  Actions out;
  for (auto& [id, replica] : replicas_) {
    replica.hangs = replica.pace.hangs(now);
    if (replica.state == ReplicaState::kReady && now - replica.last_answer > options_.suspect_after)
      replica.state = ReplicaState::kSuspect;
  }
  for (auto& [id, replica] : replicas_) {
    if (replica.state == ReplicaState::kSuspect && ready()) lose_all(id, true, "its engine does not answer", now, out);
  }
  place_waiting(now, out);
  return out;
}

std::optional<Ticket> Router::ticket_of(Attempt attempt) const {
  const auto found = attempts_.find(attempt);
  return found == attempts_.end() ? std::nullopt : std::optional<Ticket>(found->second);
}

bool Router::ready() const {
  return std::any_of(replicas_.begin(), replicas_.end(), [this](const auto& entry) { return takes(entry.second); });
}

size_t Router::waiting() const {
  return static_cast<size_t>(
      std::count_if(flights_.begin(), flights_.end(), [](const auto& entry) { return !entry.second.replica; }));
}

std::vector<ReplicaView> Router::replicas() const {
  std::vector<ReplicaView> views;
  for (const auto& [id, replica] : replicas_)
    views.push_back(
        {.id = id, .state = shown_state(replica), .status = replica.status, .in_flight = replica.in_flight.size()});
  return views;
}

ReplicaState Router::shown_state(const Replica& replica) {
  if (replica.draining) return ReplicaState::kDraining;
  return replica.state == ReplicaState::kReady && replica.hangs ? ReplicaState::kHanging : replica.state;
}

bool Router::takes(const Replica& replica) const { return replica.state == ReplicaState::kReady && !replica.draining; }

std::optional<ReplicaId> Router::choose(const Flight& flight) const {
  struct Offer {
    ReplicaId id;
    bool hangs;
    bool free;
    size_t prefix;
    size_t load;
    uint64_t last_sent;
  };
  std::vector<Offer> offers;
  for (const auto& [id, replica] : replicas_) {
    if (!takes(replica) || replica.full || flight.refusals.contains(id)) continue;
    offers.push_back({.id = id,
                      .hangs = replica.hangs,
                      .free = replica.in_flight.size() < static_cast<size_t>(replica.slots),
                      .prefix = replica.prefixes.longest(flight.blocks),
                      .load = replica.in_flight.size(),
                      .last_sent = replica.last_sent});
  }
  const auto better = [](const Offer& a, const Offer& b) {
    if (a.hangs != b.hangs) return b.hangs;
    if (a.free != b.free) return a.free;
    if (a.prefix != b.prefix) return a.prefix > b.prefix;
    if (a.load != b.load) return a.load < b.load;
    return a.last_sent < b.last_sent;
  };
  const auto best = std::min_element(offers.begin(), offers.end(), better);
  return best == offers.end() ? std::nullopt : std::optional<ReplicaId>(best->id);
}

void Router::send(Ticket ticket, Flight& flight, ReplicaId id, Actions& out) {
  Replica& replica = replicas_.at(id);
  flight.replica = id;
  flight.attempt = next_attempt_++;
  attempts_[flight.attempt] = ticket;
  replica.in_flight.insert(flight.attempt);
  replica.prefixes.insert(flight.blocks);
  replica.last_sent = ++sent_;
  if (flight.losses > 0) ++moves_;
  out.push_back({.kind = Action::Kind::kSend, .ticket = ticket, .replica = id, .attempt = flight.attempt});
}

bool Router::place(Ticket ticket, Flight& flight, Actions& out) {
  const std::optional<ReplicaId> replica = choose(flight);
  if (replica) send(ticket, flight, *replica, out);
  return replica.has_value();
}

void Router::detach(Flight& flight) {
  if (!flight.replica) return;
  if (const auto found = replicas_.find(*flight.replica); found != replicas_.end())
    found->second.in_flight.erase(flight.attempt);
  attempts_.erase(flight.attempt);
  flight.replica.reset();
}

void Router::lose(Ticket ticket, bool cancel, const std::string& why, Instant now, Actions& out) {
  Flight& flight = flights_.at(ticket);
  if (cancel && flight.replica)
    out.push_back({.kind = Action::Kind::kCancel, .replica = *flight.replica, .attempt = flight.attempt});
  if (flight.replica) flight.refusals = {*flight.replica};
  detach(flight);
  flight.waits_since = now;
  if (++flight.losses >= options_.most_attempts) {
    fail(ticket,
         server_error("The request was tried on " + std::to_string(flight.losses) + " engines; of the last, " + why +
                      "."),
         out);
    return;
  }
  place(ticket, flight, out);
}

void Router::lose_all(ReplicaId id, bool cancel, const std::string& why, Instant now, Actions& out) {
  const std::set<Attempt> lost = replicas_.at(id).in_flight;
  for (const Attempt attempt : lost) {
    if (const std::optional<Ticket> ticket = ticket_of(attempt)) lose(*ticket, cancel, why, now, out);
  }
}

void Router::place_waiting(Instant now, Actions& out) {
  std::vector<Ticket> tired;
  for (auto& [ticket, flight] : flights_) {
    if (flight.replica) continue;
    flight.refusals.clear();
    if (!place(ticket, flight, out) && now - flight.waits_since > options_.patience) tired.push_back(ticket);
  }
  for (const Ticket ticket : tired)
    fail(ticket, unavailable("The engine of this request died, and no other one is ready.", kLoadingRetry), out);
}

ApiError Router::not_ready() const {
  double progress = -1;
  for (const auto& [id, replica] : replicas_) {
    if (replica.state == ReplicaState::kLoading) progress = std::max(progress, replica.status.load_progress);
  }
  if (progress >= 0) return model_loading(progress);
  return unavailable(replicas_.empty() ? "The model has no replica." : "The model's replicas are starting.",
                     kLoadingRetry);
}

void Router::fail(Ticket ticket, ApiError error, Actions& out) {
  flights_.erase(ticket);
  out.push_back({.kind = Action::Kind::kFail, .ticket = ticket, .error = std::move(error)});
}

}  // namespace serving::gateway
