#include "examples/llm_serving/gateway/dispatcher.h"

namespace serving::gateway {
namespace {

constexpr size_t kMostUnread = 256 << 10;  // bytes of events that wait for one client

size_t size_of(const Event& event) {
  return sizeof(Event) + event.text.size() + event.top.size() * sizeof(TokenLogprob) +
         event.embedding.size() * sizeof(float);
}

double seconds_between(Instant from, Instant to) { return std::chrono::duration<double>(to - from).count(); }

}  // namespace

std::optional<Event> Flight::next() {
  if (unread_.empty()) return std::nullopt;
  Event event = std::move(unread_.front());
  unread_.pop_front();
  unread_bytes_ -= size_of(event);
  return event;
}

std::shared_ptr<Flight> Dispatcher::submit(Request request, std::function<void()> wake, Instant now) {
  auto flight = std::make_shared<Flight>();
  flight->ticket_ = next_ticket_++;
  flight->request_ = std::move(request);
  flight->wake_ = std::move(wake);
  flights_[flight->ticket_] = flight;
  perform(router_.submit(flight->ticket_, flight->request_.prompt, now), now);
  return flight;
}

void Dispatcher::leave(const Flight& flight) {
  const Ticket ticket = flight.ticket_;
  for (const Action& action : router_.ended(ticket)) link_.cancel(action.replica, action.attempt);
  flights_.erase(ticket);
}

void Dispatcher::answered(ReplicaId replica, const EngineStatus& status, Instant now) {
  perform(router_.answered(replica, status, now), now);
}

void Dispatcher::admitted(Attempt attempt, const Admission& admission, Instant handed_over, Instant now) {
  if (admission.verdict != Admission::Verdict::kTaken) return perform(router_.refused(attempt, admission, now), now);
  const std::optional<Ticket> ticket = router_.ticket_of(attempt);
  if (!ticket) return;
  const auto found = flights_.find(*ticket);
  if (found != flights_.end() && found->second->handed_over_ == Instant{}) found->second->handed_over_ = handed_over;
}

void Dispatcher::step(ReplicaId replica, const Step& step, Instant arrived) {
  router_.stepped(replica, arrived);
  for (const Event& event : step.events) {
    const std::optional<Ticket> ticket = router_.ticket_of(event.request);
    if (!ticket) continue;
    const auto found = flights_.find(*ticket);
    if (found == flights_.end() || found->second->ended_) continue;
    const std::shared_ptr<Flight> flight = found->second;
    if (event.finish == Finish::kError || event.finish == Finish::kCancelled)
      perform(router_.failed(event.request, event.error, arrived), arrived);
    else if (event.token >= 0 && event.position < static_cast<int32_t>(flight->output_.size()))
      continue;  // told already
    else if (event.token >= 0 && event.position > static_cast<int32_t>(flight->output_.size()))
      perform(router_.failed(event.request, "it skipped a token", arrived), arrived);
    else
      take(*flight, event, arrived);
  }
}

void Dispatcher::take(Flight& flight, Event event, Instant now) {
  if (event.token >= 0) {
    if (!flight.output_.empty()) metrics_.token_gap(seconds_between(flight.last_token_, now));
    flight.output_.push_back(event.token);
    flight.last_token_ = now;
  }
  flight.ended_ = event.finish != Finish::kNone || flight.request_.embedding;
  if (flight.ended_) router_.ended(flight.ticket_);  // its place is free, however slowly its client reads
  if (flight.unread_.empty()) flight.unread_since_ = now;
  flight.unread_bytes_ += size_of(event);
  flight.unread_.push_back(std::move(event));
  if (flight.unread_bytes_ > kMostUnread && !flight.ended_) {
    const Ticket ticket = flight.ticket_;
    for (const Action& action : router_.ended(ticket)) link_.cancel(action.replica, action.attempt);
    fail(ticket, server_error("The client reads too slowly: " + std::to_string(kMostUnread) + " bytes wait for it."));
    return;
  }
  flight.wake_();
}

void Dispatcher::perform(const Actions& actions, Instant now) {
  for (const Action& action : actions) {
    if (action.kind == Action::Kind::kCancel) {
      link_.cancel(action.replica, action.attempt);
    } else if (action.kind == Action::Kind::kFail) {
      fail(action.ticket, action.error);
    } else if (const auto found = flights_.find(action.ticket); found != flights_.end()) {
      found->second->last_token_ = now;
      Request request = found->second->request_;
      request.id = action.attempt;
      request.replayed = found->second->output_;
      link_.submit(action.replica, std::move(request));
    }
  }
}

void Dispatcher::fail(Ticket ticket, const ApiError& error) {
  const auto found = flights_.find(ticket);
  if (found == flights_.end()) return;
  found->second->error_ = error;
  found->second->ended_ = true;
  found->second->wake_();
}

}  // namespace serving::gateway
