#include "runtime/worker/object_table.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/check.h"

namespace rayo::worker {

ObjectTable::ObjectTable(uint64_t home, uint64_t process, ObjectObserver& observer)
    : home_(home), process_(process), observer_(observer) {}

ObjectTable::~ObjectTable() {
  for (auto& chunk : chunks_)
    for (size_t i = 0; i < kChunk; ++i)
      if (ObjectSlot& slot = chunk[i]; slot.data != slot.small.data() && !slot.in_arena) delete[] slot.data;
}

ObjectSlot& ObjectTable::take() {
  if (!free_) {
    auto chunk = std::make_unique<ObjectSlot[]>(kChunk);
    for (size_t i = kChunk; i-- > 0;) {
      chunk[i].index = static_cast<uint32_t>(chunks_.size() * kChunk + i);
      chunk[i].next_free = free_;
      free_ = &chunk[i];
    }
    chunks_.push_back(std::move(chunk));
  }
  ObjectSlot& slot = *free_;
  free_ = slot.next_free;
  // Nobody else counts it; it may still stand in the list of released ones.
  slot.handles.store(slot.handles.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  slot.state.store(ObjectState::kPending, std::memory_order_relaxed);
  ++live_;
  return slot;
}

ObjectSlot& ObjectTable::mint() {
  ObjectSlot& slot = take();
  ++slot.generation;
  slot.own = true;
  slot.id = {home_, process_, static_cast<uint64_t>(slot.generation) << 32 | slot.index};
  return slot;
}

ObjectSlot* ObjectTable::own(uint64_t counter) {
  const uint32_t index = static_cast<uint32_t>(counter);
  if (index / kChunk >= chunks_.size()) return nullptr;
  ObjectSlot& slot = chunks_[index / kChunk][index % kChunk];
  if (!slot.own || slot.id.counter != counter) return nullptr;
  return &slot;
}

ObjectSlot* ObjectTable::find(const ObjectId& id) {
  if (id.home == home_ && id.process == process_)
    if (ObjectSlot* mine = own(id.counter)) return mine;
  // An own one that was let go here and comes back from others is like a foreign one: its home knows it.
  auto found = foreign_.find(id);
  return found == foreign_.end() ? nullptr : found->second;
}

ObjectSlot& ObjectTable::adopt(const ObjectId& id) {
  if (ObjectSlot* known = find(id)) {
    retain(*known);
    return *known;
  }
  ObjectSlot& slot = take();
  slot.own = false;
  slot.id = id;
  foreign_.emplace(id, &slot);
  return slot;
}

void ObjectTable::settle(ObjectSlot& slot, ObjectState state, std::unique_ptr<Inner> inner) {
  slot.call = false;
  slot.owner = nullptr;
  slot.inner.swap(inner);
  if (inner) let_go(std::move(inner));
  slot.state.store(state, std::memory_order_release);
  while (ReadyHook* hook = slot.hooks) {
    slot.hooks = hook->next;
    hook->next = nullptr;
    hook->ready(*hook);
  }
  free_if_unused(slot);
}

void ObjectTable::let_go(std::unique_ptr<Inner> inner) {
  for (const internal::ObjectHandle& ref : inner->refs) release(slot_of(ref));
  if (inner->actors) observer_.release_actors(*inner->actors);
}

namespace {
std::unique_ptr<Inner> kept(Inner inner) { return inner.empty() ? nullptr : std::make_unique<Inner>(std::move(inner)); }
}  // namespace

void ObjectTable::fulfil(ObjectSlot& slot, internal::Bytes value, Inner inner) {
  if (slot.ready()) return;
  std::byte* to = value.size() <= slot.small.size() ? slot.small.data() : new std::byte[value.size()];
  if (!value.empty()) std::memcpy(to, value.data(), value.size());
  slot.data = to;
  slot.size = value.size();
  settle(slot, ObjectState::kValue, kept(std::move(inner)));
}

void ObjectTable::fulfil_with(ObjectSlot& slot, std::unique_ptr<std::byte[]> value, size_t size) {
  if (slot.ready()) return;
  slot.data = value.release();
  slot.size = size;
  settle(slot, ObjectState::kValue, {});
}

void ObjectTable::fulfil_in_arena(ObjectSlot& slot, internal::Bytes value, Inner inner) {
  if (slot.ready()) return;
  slot.in_arena = true;
  slot.data = value.data();
  slot.size = value.size();
  slot.shared.store(true, std::memory_order_relaxed);
  settle(slot, ObjectState::kValue, kept(std::move(inner)));
}

void ObjectTable::fail(ObjectSlot& slot, ErrorRecord error) {
  if (slot.ready()) return;
  slot.error = std::make_unique<ErrorRecord>(std::move(error));
  settle(slot, ObjectState::kFailed, {});
}

void ObjectTable::await(ObjectSlot& slot, ReadyHook& hook) {
  hook.next = slot.hooks;
  slot.hooks = &hook;
}

void ObjectTable::forget(ObjectSlot& slot, ReadyHook& hook) {
  for (ReadyHook** at = &slot.hooks; *at; at = &(*at)->next)
    if (*at == &hook) {
      *at = hook.next;
      hook.next = nullptr;
      return;
    }
}

bool ObjectTable::release(ObjectSlot& slot) {
  uint32_t handles = slot.handles.load(std::memory_order_relaxed);
  while (!slot.handles.compare_exchange_weak(handles, handles == 1 ? ObjectSlot::kReleaseQueued : handles - 1,
                                             std::memory_order_acq_rel, std::memory_order_relaxed)) {
  }
  if ((handles & ~ObjectSlot::kReleaseQueued) != 1) return false;
  const bool tell = slot.shared.load(std::memory_order_relaxed);
  if (handles != 1) return tell;  // queued already
  ObjectSlot* head = released_.load(std::memory_order_relaxed);
  do {
    slot.next_released = head;
  } while (!released_.compare_exchange_weak(head, &slot, std::memory_order_release, std::memory_order_relaxed));
  return tell;
}

void ObjectTable::drain() {
  while (released_.load(std::memory_order_relaxed)) {
    ObjectSlot* slot = released_.exchange(nullptr, std::memory_order_acquire);
    while (slot) {
      ObjectSlot* next = slot->next_released;
      if (slot->handles.load(std::memory_order_relaxed) == ObjectSlot::kReleaseQueued)
        slot->handles.store(0, std::memory_order_relaxed);  // nobody is left who could count it
      else
        slot->handles.fetch_and(~ObjectSlot::kReleaseQueued, std::memory_order_acq_rel);
      free_if_unused(*slot);
      slot = next;
    }
  }
}

bool ObjectTable::reads_arena() const {
  for (const auto& chunk : chunks_)
    if (std::any_of(&chunk[0], &chunk[kChunk], [](const ObjectSlot& slot) { return slot.in_arena; })) return true;
  return false;
}

void ObjectTable::free_if_unused(ObjectSlot& slot) {
  if (slot.held() || slot.call || slot.hooks) return;
  if (slot.state.load(std::memory_order_relaxed) == ObjectState::kFree) return;
  if (slot.shared.load(std::memory_order_relaxed)) observer_.freeing(slot);
  if (!slot.own) foreign_.erase(slot.id);
  if (slot.inner) let_go(std::move(slot.inner));
  if (slot.data != slot.small.data() && !slot.in_arena) delete[] slot.data;
  slot.data = nullptr;
  slot.size = 0;
  slot.error.reset();
  slot.own = slot.exported = slot.in_arena = slot.pinned = slot.watched = false;
  slot.shared.store(false, std::memory_order_relaxed);
  slot.id = {};
  slot.state.store(ObjectState::kFree, std::memory_order_release);
  --live_;
  if (slot.generation == ObjectSlot::kLastGeneration) return;  // (4)
  slot.next_free = free_;
  free_ = &slot;
}

}  // namespace rayo::worker
