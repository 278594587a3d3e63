#include "runtime/raylet/home_outbox.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/rpc/proto_ids.h"

namespace rayo::raylet {

void HomeOutbox::hold(const ObjectId& object, bool held) {
  Home& home = homes_[object.home];
  home.holds[object] = held;
  advance(object.home, home);
}

void HomeOutbox::copy(const ObjectId& object, std::optional<int64_t> size_bytes) {
  Home& home = homes_[object.home];
  home.copies[object] = size_bytes;
  advance(object.home, home);
}

// Null where its home has died meanwhile.
HomeOutbox::Home* HomeOutbox::in_flight(uint64_t home, uint64_t number) {
  auto found = homes_.find(home);
  const bool is = found != homes_.end() && found->second.in_flight && found->second.in_flight->number() == number;
  return is ? &found->second : nullptr;
}

void HomeOutbox::acknowledged(uint64_t home, uint64_t number) {
  Home* state = in_flight(home, number);
  if (!state) return;
  state->in_flight.reset();
  advance(home, *state);
}

void HomeOutbox::failed(uint64_t home, uint64_t number) {
  if (Home* state = in_flight(home, number)) state->waits_for_retry = true;
}

void HomeOutbox::node_gone(uint64_t home) {
  auto found = homes_.find(home);
  if (found != homes_.end()) found->second = Home{.number = found->second.number};
}

bool HomeOutbox::empty() const {
  return std::ranges::all_of(homes_, [](const auto& entry) {
    const Home& state = entry.second;
    return state.holds.empty() && state.copies.empty() && !state.in_flight;
  });
}

void HomeOutbox::retry() {
  std::vector<uint64_t> due;
  for (const auto& [home, state] : homes_)
    if (state.waits_for_retry) due.push_back(home);
  for (uint64_t home : due) {
    auto found = homes_.find(home);  // sending to one may have ended another
    if (found == homes_.end() || !std::exchange(found->second.waits_for_retry, false)) continue;
    const proto::HoldObjectsRequest again = *found->second.in_flight;
    send_(home, again);
  }
}

void HomeOutbox::advance(uint64_t home, Home& state) {
  if (state.in_flight || (state.holds.empty() && state.copies.empty())) return;
  proto::HoldObjectsRequest request;
  rpc::to_proto(self_, request.mutable_node());
  request.set_number(++state.number);
  for (const auto& [object, held] : state.holds)
    *(held ? request.add_held() : request.add_dropped()) = rpc::to_proto(object);
  for (const auto& [object, size] : state.copies) {
    if (size) {
      proto::ObjectCopy* copy = request.add_copies();
      *copy->mutable_object() = rpc::to_proto(object);
      copy->set_size_bytes(*size);
    } else {
      *request.add_copies_dropped() = rpc::to_proto(object);
    }
  }
  state.holds.clear();
  state.copies.clear();
  state.in_flight = request;
  send_(home, request);
}

}  // namespace rayo::raylet
