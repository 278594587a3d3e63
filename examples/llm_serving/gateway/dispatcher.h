// The requests of one model on their way through its replicas: performs what the Router decides and keeps, for each
// request, what a replay needs (prompt and tokens so far).
//
//   auto flight = dispatcher.submit(request, waker);
//   while (auto event = flight->next()) ...      // then wait for the waker
//   dispatcher.leave(*flight);                   // its end, or its client's
//
// Invariants: 1. events of a flight have positions 0, 1, 2 ...: none is lost, doubled or out of order, whatever replicas
// die. 2. A client that reads too slowly is given up when `kMostUnread` bytes wait for it. One owner: the io thread.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "examples/llm_serving/gateway/metrics.h"
#include "examples/llm_serving/gateway/router.h"
#include "examples/llm_serving/protocol.h"

namespace serving::gateway {

// Choices or inputs of one HTTP request that are with engines at a time. The others wait in the gateway: a list of 1,000 texts
// would fill the engines' queues alone, and be refused itself.
inline constexpr size_t kTogether = 64;

// How a dispatcher reaches its replicas. What they answer comes back to admitted(), step(), answered() and died() on
// the io thread.
class EngineLink {
 public:
  virtual ~EngineLink() = default;
  virtual void submit(ReplicaId replica, Request request) = 0;
  virtual void cancel(ReplicaId replica, Attempt attempt) = 0;
};

class Flight {
 public:
  std::optional<Event> next();
  // Set once it cannot go on; what was produced before is still read first.
  const std::optional<ApiError>& error() const { return error_; }
  bool ended() const { return ended_ && unread_.empty(); }
  // When the first event that next() has not given came, and when an engine was first asked; {}: not yet.
  Instant unread_since() const { return unread_.empty() ? Instant{} : unread_since_; }
  Instant handed_over() const { return handed_over_; }

 private:
  friend class Dispatcher;
  Ticket ticket_ = 0;
  Request request_;  // without id and replayed
  std::vector<Token> output_;
  std::deque<Event> unread_;
  size_t unread_bytes_ = 0;
  Instant unread_since_{};
  Instant handed_over_{};
  bool ended_ = false;
  std::optional<ApiError> error_;
  std::function<void()> wake_;
  Instant last_token_{};
};

class Dispatcher {
 public:
  Dispatcher(std::string model, EngineLink& link, RouterOptions options = {})
      : metrics_(std::move(model)), link_(link), router_(options) {}

  std::shared_ptr<Flight> submit(Request request, std::function<void()> wake, Instant now);
  void leave(const Flight& flight);

  void add_replica(ReplicaId replica, int32_t slots, Instant now) { router_.add(replica, slots, now); }
  void drain(ReplicaId replica) { router_.drain(replica); }
  void remove(ReplicaId replica, Instant now) { perform(router_.remove(replica, now), now); }
  void answered(ReplicaId replica, const EngineStatus& status, Instant now);
  void died(ReplicaId replica, Instant now) { perform(router_.died(replica, now), now); }
  // What became of a submit() that was handed to the engine at `handed_over`.
  void admitted(Attempt attempt, const Admission& admission, Instant handed_over, Instant now);
  void step(ReplicaId replica, const Step& step, Instant arrived);
  void tick(Instant now) { perform(router_.tick(now), now); }
  void close() { router_.close(); }

  const Router& router() const { return router_; }
  ModelMetrics& metrics() { return metrics_; }
  size_t flights() const { return flights_.size(); }

 private:
  void perform(const Actions& actions, Instant now);
  void take(Flight& flight, Event event, Instant now);
  void fail(Ticket ticket, const ApiError& error);

  ModelMetrics metrics_;
  EngineLink& link_;
  Router router_;
  std::unordered_map<Ticket, std::shared_ptr<Flight>> flights_;
  Ticket next_ticket_ = 1;
};

}  // namespace serving::gateway
