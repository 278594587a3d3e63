// Every object that this process knows: results of its calls, what it put, and ids that reached it from elsewhere. A
// slot is found from a call's reply in O(1) (its number is the call id), a call allocates nothing, and handles are
// counted without the baton.
//
// Invariants
//  1. A slot's memory is never given back while the table lives: a late release of a reused slot is harmless.
//  2. A slot is free only when no handle counts it, no call will fill it and nothing waits for it.
//  3. Once `state` is not kPending it does not change, and neither does the value, until the slot is freed.
//  4. A counter is never used twice: its upper half is the slot's generation, and a slot ends with its last one.
//
// Everything is guarded by the engine's baton but what says "any thread".
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include <rayo/error.h>
#include <rayo/id.h>
#include <rayo/internal/backend.h>

namespace rayo::worker {

class CallOwner;  // who will answer: an ActorClient or a leased worker (call_wire.h)

enum class ObjectState : uint8_t { kFree, kPending, kValue, kFailed };

// What happens, once and under the baton, when a slot is filled. Embedded in its owner, so that waiting allocates
// nothing.
struct ReadyHook {
  ReadyHook* next = nullptr;
  void (*ready)(ReadyHook& hook) = nullptr;
};

// Counted handles of what is inside a value: they belong to its slot from then on.
struct Inner {
  std::vector<internal::ObjectHandle> refs;
  std::unique_ptr<std::vector<ActorId>> actors;
  bool empty() const { return refs.empty() && !actors; }
};

// What a call that carries a small value touches stands in the first two cache lines.
struct alignas(64) ObjectSlot {
  std::atomic<ObjectState> state{ObjectState::kFree};
  std::atomic<bool> shared{false};   // others know of it: freeing it is told to the raylet
  bool own = false;                  // minted here
  bool call = false;                 // an outstanding call (or a resolve) will fill it
  bool exported = false;             // own, and its id left this process: the home must know it
  bool in_arena = false;             // `data` lies in the arena
  bool pinned = false;               // ... and the raylet keeps it there until it is told to let go
  bool watched = false;              // own: a stream's marker (streams.h), whose end is wanted to be known
  std::atomic<uint32_t> handles{0};  // and kReleaseQueued
  uint32_t index = 0;
  uint32_t generation = 0;
  size_t size = 0;
  const std::byte* data = nullptr;
  CallOwner* owner = nullptr;  // of an outstanding call
  ReadyHook* hooks = nullptr;
  std::unique_ptr<ErrorRecord> error;
  std::unique_ptr<Inner> inner;  // while pending what the call named, then what is inside the value
  ObjectId id;
  ObjectSlot* next_free = nullptr;
  ObjectSlot* next_released = nullptr;  // its own field: a late release may push a slot that is free by then (1)
  std::array<std::byte, 80> small;

  static constexpr uint32_t kLastGeneration = std::numeric_limits<uint32_t>::max();
  // In `handles`: the slot stands in the list of released ones.
  static constexpr uint32_t kReleaseQueued = 1u << 31;
  bool held() const { return (handles.load(std::memory_order_acquire) & ~kReleaseQueued) != 0; }

  // Any thread that counts a handle. After this is true the value may be read without the baton.
  bool ready() const { return state.load(std::memory_order_acquire) > ObjectState::kPending; }
  internal::ValueView view() const { return {{data, size}, error.get()}; }
  internal::ObjectHandle handle() { return {id, this}; }
  std::span<const internal::ObjectHandle> inner_refs() const {
    return inner ? std::span<const internal::ObjectHandle>(inner->refs) : std::span<const internal::ObjectHandle>();
  }
};
static_assert(sizeof(ObjectSlot) == 192);

inline ObjectSlot& slot_of(const internal::ObjectHandle& object) { return *static_cast<ObjectSlot*>(object.slot); }

// Told when a slot that others know of is about to be freed.
class ObjectObserver {
 public:
  virtual ~ObjectObserver() = default;
  virtual void freeing(ObjectSlot& slot) = 0;
  // Counted handles of actors that a call named or a value held are let go.
  virtual void release_actors(std::span<const ActorId> actors) = 0;
};

class ObjectTable {
 public:
  // `home` and `process` are the short ids of this node and process.
  ObjectTable(uint64_t home, uint64_t process, ObjectObserver& observer);
  ~ObjectTable();

  // A fresh own object, pending, one handle.
  ObjectSlot& mint();
  // The slot of an id that arrived; one handle more. A foreign one that was unknown is pending with `call` false.
  ObjectSlot& adopt(const ObjectId& id);
  ObjectSlot* find(const ObjectId& id);
  // The own object of that counter while it is alive, else null: a reply that comes too late.
  ObjectSlot* own(uint64_t counter);

  // Fill a pending slot: hooks run, and where no handle is left the slot is freed. Nothing happens to a filled one.
  void fulfil(ObjectSlot& slot, internal::Bytes value, Inner inner = {});
  // The same without a copy: the slot owns the bytes.
  void fulfil_with(ObjectSlot& slot, std::unique_ptr<std::byte[]> value, size_t size);
  void fulfil_in_arena(ObjectSlot& slot, internal::Bytes value, Inner inner = {});
  void fail(ObjectSlot& slot, ErrorRecord error);

  void await(ObjectSlot& slot, ReadyHook& hook);
  void forget(ObjectSlot& slot, ReadyHook& hook);

  // Any thread. True from release: `engine.wake` is worth it, since the raylet has to hear of it.
  static void retain(ObjectSlot& slot) { slot.handles.fetch_add(1, std::memory_order_relaxed); }
  bool release(ObjectSlot& slot);
  bool has_released() const { return released_.load(std::memory_order_relaxed) != nullptr; }

  // Frees what was released since the last time.
  void drain();

  // Calls visit(slot) for each pending slot whose owner is `owner`; for deaths, so O(all slots) is fine.
  template <class Visit>
  void for_each_owned(const CallOwner* owner, Visit&& visit) {
    for (size_t chunk = 0; chunk < chunks_.size(); ++chunk)
      for (size_t i = 0; i < kChunk; ++i) {
        ObjectSlot& slot = chunks_[chunk][i];
        if (slot.owner == owner && slot.call) visit(slot);
      }
  }

  size_t live() const { return live_; }
  // Somebody may still read a value that lies in the arena.
  bool reads_arena() const;

 private:
  static constexpr size_t kChunk = 256;

  ObjectSlot& take();
  void settle(ObjectSlot& slot, ObjectState state, std::unique_ptr<Inner> inner);
  void let_go(std::unique_ptr<Inner> inner);
  void free_if_unused(ObjectSlot& slot);

  const uint64_t home_;
  const uint64_t process_;
  ObjectObserver& observer_;
  std::vector<std::unique_ptr<ObjectSlot[]>> chunks_;
  ObjectSlot* free_ = nullptr;
  size_t live_ = 0;
  std::unordered_map<ObjectId, ObjectSlot*> foreign_;
  std::atomic<ObjectSlot*> released_{nullptr};
};

}  // namespace rayo::worker
