// The side of `rayo serve` that asks an endpoint: finds its mailbox, gives orders, reads reports.
#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <optional>
#include <string>

#include "examples/llm_serving/endpoint_actor.h"
#include "examples/llm_serving/engine/result.h"

namespace serving {

class EndpointClient {
 public:
  EndpointClient(uint16_t port, Mailbox mailbox) : port_(port), mailbox_(std::move(mailbox)) {}
  // The one at that port of this cluster.
  static std::optional<EndpointClient> find(uint16_t port);

  // The order's number. Throws rayo::Error.
  uint64_t ask(const EndpointOrder& order);
  // What it told last; null before its first word. A problem: it has been gone for a while.
  Result<boost::json::value> report();
  // Whether everything up to that order is carried out, as of the last report.
  bool done(uint64_t order) const { return done_ >= order; }
  bool gone() const;  // its mailbox is

 private:
  uint16_t port_;
  Mailbox mailbox_;
  uint64_t done_ = 0;
  std::chrono::steady_clock::time_point heard_ = std::chrono::steady_clock::now();
};

// What a report says went wrong with an order.
std::optional<Problem> failure_of(const boost::json::value& report, uint64_t order);

// Null where it has none of that name.
const boost::json::object* model_of(const boost::json::value& report, const std::string& name);

}  // namespace serving
