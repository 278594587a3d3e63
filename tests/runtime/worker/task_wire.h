// The wire of tests of tasks: links at once, remembers what is sent, and rings alarms when time is moved by hand.
#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "runtime/worker/call_wire.h"
#include "runtime/worker/failure.h"

namespace rayo::worker {

struct NobodyObserves : ObjectObserver {
  void freeing(ObjectSlot&) override {}
  void release_actors(std::span<const ActorId>) override {}
};

class TaskWire final : public CallWire {
 public:
  struct Frame {
    PeerId peer;
    rpc::FrameHeader header;
  };

  bool send(PeerId peer, const rpc::FrameHeader& header, std::span<const Bytes>) override {
    sent.push_back({peer, header});
    return true;
  }
  // A peer for each process, numbered by its id.
  void connect(const proto::ProcessAddress& address, CallOwner& owner) override {
    const PeerId peer = address.process().low();
    owners[peer] = &owner;
    owner.linked(peer);
  }
  void disconnect(CallOwner& owner) override {
    std::erase_if(owners, [&](const auto& entry) { return entry.second == &owner; });
    std::erase_if(alarms, [&](const auto& entry) { return entry.second == &owner; });
  }
  void share(ObjectSlot&) override {}
  void retain_actors(std::span<const ActorId>) override {}
  void release_actors(std::span<const ActorId>) override {}
  void watch_actor(const ActorId&) override {}
  void went_idle(const ActorId&) override {}
  void request_leases(const proto::RequestLeases& request) override { wanted = request.count(); }
  void return_lease(const LeaseId&, GiveBack how) override {
    ++leases_returned;
    given_back.push_back(how);
  }
  base::TimePoint now() const override { return time; }
  void wake_at(base::TimePoint at, CallOwner& owner) override { alarms.emplace(at, &owner); }

  void advance(base::Duration span) {
    time += span;
    while (!alarms.empty() && alarms.begin()->first <= time) alarms.extract(alarms.begin()).mapped()->on_deadline(time);
  }

  base::TimePoint time{};
  std::vector<Frame> sent;
  std::map<PeerId, CallOwner*> owners;
  std::multimap<base::TimePoint, CallOwner*> alarms;
  int wanted = 0;  // leases: as told last
  int leases_returned = 0;
  std::vector<GiveBack> given_back;
};

}  // namespace rayo::worker
