// What streams need of the process they live in. Under the baton.
#pragma once

#include <functional>

#include "runtime/worker/call_wire.h"

namespace rayo::worker {

struct StreamWires {
  CallWire& calls;
  ObjectTable& table;
  // One handle more of an object whose id arrived; our raylet hears of it.
  std::function<ObjectSlot&(const ObjectId&)> adopt;
  // Runs `known` once the homes know of every handle that this process has now.
  std::function<void(std::function<void()> known)> confirm;
  // Bytes that wait in this process for that peer to read on.
  std::function<size_t(PeerId)> backlog;
  // What the control store knows of an actor comes, where it answers, by Streams::on_maker with that number.
  std::function<void(const ActorId&, uint64_t number)> look_up;
  std::function<void(base::Duration, std::function<void()>)> after;
};

// An item, and counted handles of what is inside of it.
struct StreamItem {
  std::vector<std::byte> value;
  Inner inner;
  bool has_inner() const { return !inner.refs.empty() || inner.actors; }
};

inline void let_go(StreamWires& wires, Inner inner) {
  for (const internal::ObjectHandle& ref : inner.refs) wires.table.release(slot_of(ref));
  if (inner.actors) wires.calls.release_actors(*inner.actors);
}

}  // namespace rayo::worker
