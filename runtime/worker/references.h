// What the raylet hears of this process's objects and actor handles: the first and last handle of a foreign object, the
// value of an own one whose id left the process, and requests for values that lie elsewhere. A value that never leaves
// the process is never spoken of. Messages are batched until flush(); a handle that comes and goes within a batch is
// not mentioned.
//
// Everything under the baton.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runtime/worker/arena_store.h"
#include "runtime/worker/object_pieces.h"
#include "runtime/worker/object_table.h"
#include "runtime/worker/raylet_link.h"

namespace rayo::worker {

class References : public ObjectObserver {
 public:
  References(RayletLink& raylet, ArenaStore& arena) : raylet_(raylet), arena_(arena), pieces_(raylet) {}
  void bind(ObjectTable& table) { table_ = &table; }
  // Told when a watched object that never left this process has lost its last handle. (Of the others the raylet tells.)
  void on_unheld(std::function<void(const ObjectId&)> tell) { unheld_ = std::move(tell); }
  // Given the last handle of an actor that was in a value or named by a call, to release it (release_actor) when it can.
  void on_last_handle(std::function<void(const ActorId&)> take) { last_handle_ = std::move(take); }

  // A foreign object got its first handle here.
  void hold(ObjectSlot& slot);
  // The object's id is about to leave this process: an own one is published, now or when it is known, with what is
  // inside it.
  void share(ObjectSlot& slot);
  // Somebody waits for an object of ours of which its home knows nothing: it is published, or the home is told that it is
  // gone.
  void wanted(const ObjectId& id);
  // Asks for the value of a foreign object, once.
  void resolve(ObjectSlot& slot);
  // The result of a call of ours was sealed under our id in the arena of its callee's node: fetches it. Our raylet, its home,
  // hears of that copy from us too: its holder may die before it has told.
  struct Sealed {
    NodeId node;
    int64_t bytes = 0;
  };
  void resolve_result(ObjectSlot& slot, const Sealed& sealed);
  // An own object was sealed in this node's arena and has its value: its home knows of it by that.
  void sealed(ObjectSlot& slot);

  void freeing(ObjectSlot& slot) override;
  void release_actors(std::span<const ActorId> actors) override;

  // True where this was the first (or last) handle.
  bool retain_actor(const ActorId& actor);
  bool release_actor(const ActorId& actor);
  uint32_t actor_handles(const ActorId& actor) const {
    auto found = actors_.find(actor);
    return found == actors_.end() ? 0 : found->second;
  }

  bool dirty() const {
    return !held_.empty() || !dropped_.empty() || !actors_held_.empty() || !actors_dropped_.empty();
  }
  void flush();
  // Flushes; `known` is called once the homes know of everything that was held up to here.
  enum class Confirm {
    kObjects,
    kActorsToo,  // and the head of every handle: another process may let go of one that it gave us
  };
  void flush_and_confirm(Confirm what, std::function<void()> known);
  // The head knows of all actors whose handles are here, or in values that were published from here.
  bool actors_known() const { return actors_held_.empty() && batches_known_ == batches_told_; }
  // It may not know of one in such a value, while no handle is here any more.
  bool unknown_in_values() const { return in_values_ > batches_known_; }

 private:
  struct Publication : ReadyHook {
    References* references = nullptr;
    ObjectSlot* slot = nullptr;
  };
  bool leaves(ObjectSlot& slot);
  void publish_with_inner(ObjectSlot& slot);
  void publish(ObjectSlot& slot);
  void publish_when_known(ObjectSlot& slot);
  void publish_actors(const ObjectSlot& slot, proto::PublishObject& publish);
  void ask_for_value(ObjectSlot& slot, proto::ToRaylet message = {});
  void on_value(ObjectSlot& slot, const RayletLink::Answer& answer);
  void take_from_arena(ObjectSlot& slot, const proto::ObjectValue& value);
  bool take_batch(proto::ToRaylet& message);

  RayletLink& raylet_;
  ArenaStore& arena_;
  ObjectPieces pieces_;
  ObjectTable* table_ = nullptr;
  std::function<void(const ObjectId&)> unheld_;
  std::function<void(const ActorId&)> last_handle_;
  std::unordered_set<ObjectId> held_;
  std::vector<ObjectId> dropped_;
  std::unordered_map<ActorId, uint32_t> actors_;
  std::unordered_set<ActorId> actors_held_;
  std::unordered_set<ActorId> actors_dropped_;
  uint64_t batches_told_ = 0;  // that had first handles of actors in them
  uint64_t batches_known_ = 0;
  uint64_t in_values_ = 0;  // the last batch before a value with handles was published
};

}  // namespace rayo::worker
