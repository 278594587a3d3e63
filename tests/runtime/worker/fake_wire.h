// What a client of calls is given in its tests: links at once, and remembers what it was asked.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/worker/call_wire.h"

namespace rayo::worker {

inline internal::Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

struct FakeObserver : ObjectObserver {
  void freeing(ObjectSlot&) override {}
  void release_actors(std::span<const ActorId>) override {}
};

struct Sent {
  rpc::FrameHeader header;
  std::string arguments;
};

class FakeWire final : public CallWire {
 public:
  bool send(PeerId, const rpc::FrameHeader& header, std::span<const Bytes> parts) override {
    Sent frame{header, {}};
    const Bytes& last = parts.back();
    frame.arguments.assign(reinterpret_cast<const char*>(last.data()), last.size());
    sent.push_back(std::move(frame));
    return true;
  }
  void connect(const proto::ProcessAddress&, CallOwner& owner) override { owner.linked(1); }
  void disconnect(CallOwner&) override {}
  void share(ObjectSlot&) override {}
  void retain_actors(std::span<const ActorId> actors) override { actors_held += static_cast<int>(actors.size()); }
  void release_actors(std::span<const ActorId> actors) override { actors_held -= static_cast<int>(actors.size()); }
  void watch_actor(const ActorId&) override {}
  void went_idle(const ActorId&) override {}
  void request_leases(const proto::RequestLeases&) override {}
  void return_lease(const LeaseId&, GiveBack) override {}
  base::TimePoint now() const override { return {}; }
  void wake_at(base::TimePoint, CallOwner& owner) override { owner.on_deadline({}); }  // no reply is on its way

  std::vector<Sent> sent;
  int actors_held = 0;
};

}  // namespace rayo::worker
