#include "runtime/raylet/home_outbox.h"

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

void HomeOutbox::acknowledged(uint64_t home) {
  auto found = homes_.find(home);
  if (found == homes_.end()) return;
  found->second.in_flight.reset();
  advance(home, found->second);
}

void HomeOutbox::failed(uint64_t home) {
  auto found = homes_.find(home);
  if (found != homes_.end()) found->second.waits_for_retry = true;
}

void HomeOutbox::retry() {
  for (auto& [home, state] : homes_) {
    if (!state.waits_for_retry) continue;
    state.waits_for_retry = false;
    send_(home, *state.in_flight);
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
