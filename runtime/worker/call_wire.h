// What stands between those who make calls (ActorClient, TaskClient: decisions, no I/O) and the process they live in
// (sockets, rings, raylet). Both sides are used under the baton only.
#pragma once

#include <span>

#include <rayo/error.h>
#include <rayo/id.h>

#include "runtime/base/clock.h"
#include "runtime/proto/worker.pb.h"
#include "runtime/rpc/frame.h"
#include "runtime/worker/engine.h"
#include "runtime/worker/object_table.h"

namespace rayo::worker {

// Calls in flight to one actor, over which a caller waits: queueing without limit only moves the memory.
inline constexpr uint32_t kWindow = 1024;
// A ready argument up to this size travels in the call.
inline constexpr size_t kInlineArgument = 100u << 10;

// Whoever has calls outstanding at one process.
class CallOwner {
 public:
  virtual ~CallOwner() = default;

  virtual PeerId link() const = 0;
  // One of its calls was answered; it ran for `ran_us` where the callee says so (tasks), else 0.
  virtual void answered(uint64_t call_id, uint64_t ran_us) = 0;
  // Nobody waits for that call of its any more (it was cancelled). It may still run, and a reply may come.
  virtual void given_up(uint64_t call_id) = 0;

  // What became of CallWire::connect.
  virtual void linked(PeerId peer) = 0;
  virtual void link_failed(const ErrorRecord& why) = 0;
  // The way to the process broke; why it did may follow.
  virtual void link_lost() = 0;
  // Whether it could do without its link: no call is under way or waits to be sent.
  virtual bool idle() const = 0;
  // The link is given up for want of use: connect again before the next call.
  virtual void unlinked() = 0;
  // The process is gone, and this is how.
  virtual void peer_gone(const proto::DeathRecord& death) = 0;
  virtual void on_deadline(base::TimePoint now) = 0;

  // What a call of its waits for, for people: "Counter::add of actor Counter (3f2a...)".
  virtual std::string who() const = 0;
};

// What is to become of the worker of a lease that is given back.
enum class GiveBack : uint8_t {
  kFree,     // it takes others' tasks
  kSuspect,  // it may be in the middle of one: it ends
  kRetired,  // it has run as many as it was to: it ends
};

class CallWire {
 public:
  virtual ~CallWire() = default;

  // False: the peer is gone or takes no more for now.
  virtual bool send(PeerId peer, const rpc::FrameHeader& header, std::span<const Bytes> parts) = 0;
  // A way to that process, then owner.linked or owner.link_failed, also within this call.
  virtual void connect(const proto::ProcessAddress& address, CallOwner& owner) = 0;
  virtual void disconnect(CallOwner& owner) = 0;

  // The object's id is about to leave this process.
  virtual void share(ObjectSlot& slot) = 0;

  virtual void retain_actors(std::span<const ActorId> actors) = 0;
  virtual void release_actors(std::span<const ActorId> actors) = 0;

  virtual void watch_actor(const ActorId& actor) = 0;
  // A client that was told to part has nothing under way any more.
  virtual void went_idle(const ActorId& actor) = 0;
  virtual void request_leases(const proto::RequestLeases& request) = 0;
  virtual void return_lease(const LeaseId& lease, GiveBack how) = 0;

  virtual base::TimePoint now() const = 0;
  // owner.on_deadline is wanted at `at`; asked for again each time.
  virtual void wake_at(base::TimePoint at, CallOwner& owner) = 0;
};

}  // namespace rayo::worker
