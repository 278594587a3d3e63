#include "runtime/worker/references.h"

#include <algorithm>

#include "runtime/base/text.h"
#include "runtime/worker/failure.h"

namespace rayo::worker {
namespace {
constexpr size_t kBatch = 100'000;  // ids in one frame: 3 MB, where 16 MiB is the end
constexpr const char* kMakeItSmaller = "pass fewer refs in one value, or parts of it by themselves";
}  // namespace

void References::hold(ObjectSlot& slot) {
  slot.shared.store(true, std::memory_order_relaxed);
  held_.insert(slot.id);
}

void References::share(ObjectSlot& slot) {
  if (leaves(slot)) publish_with_inner(slot);
}

// True: an own one, for the first time. It is to be published.
bool References::leaves(ObjectSlot& slot) {
  if (!slot.own) {
    if (!held_.empty()) flush();  // whoever hears of it from us may drop his handle: ours is known first
    return false;
  }
  if (slot.exported) return false;
  slot.exported = true;
  slot.shared.store(true, std::memory_order_relaxed);
  return true;
}

// What is inside goes before it. Values that hold refs to each other may be a long chain: no recursion.
void References::publish_with_inner(ObjectSlot& slot) {
  struct Level {
    ObjectSlot* slot;
    size_t next = 0;  // of the refs inside
  };
  std::vector<Level> levels{{&slot}};
  while (!levels.empty()) {
    Level& level = levels.back();
    if (level.slot->ready() && level.next < level.slot->inner_refs().size()) {
      ObjectSlot& inner = slot_of(level.slot->inner_refs()[level.next++]);
      if (leaves(inner)) levels.push_back({&inner});
      continue;
    }
    publish(*level.slot);
    levels.pop_back();
  }
}

void References::publish_when_known(ObjectSlot& slot) {
  auto* later = new Publication;
  later->references = this;
  later->slot = &slot;
  later->ready = [](ReadyHook& hook) {
    auto* publication = static_cast<Publication*>(&hook);
    publication->references->publish_with_inner(*publication->slot);
    delete publication;
  };
  table_->await(slot, *later);
}

void References::publish(ObjectSlot& slot) {
  const bool pending = !slot.ready();
  proto::ToRaylet message;
  proto::PublishObject& publish = *message.mutable_publish_object();
  set_id(publish.mutable_object(), slot.id);
  publish.set_pending(pending);
  if (!pending) {
    for (const internal::ObjectHandle& inner : slot.inner_refs()) set_id(publish.add_inner(), inner.id);
    publish_actors(slot, publish);
    publish.set_tell_unheld(slot.watched);
    if (slot.error) {
      *publish.mutable_failure() = failure_of(*slot.error);
    } else if (slot.in_arena) {
      publish.set_in_arena(true);
    } else {
      publish.set_value(slot.data, slot.size);
    }
  }
  if (const size_t bytes = message.ByteSizeLong(); bytes > rpc::kMaxFrameBody) {
    *publish.mutable_failure() = failure_of(error_record(
        ErrorKind::kInvalid,
        base::cat("object ", slot.id.hex(), " was not passed on: its value with the ids of the ", publish.inner_size(),
                  " refs in it has ", bytes, " bytes, and a frame carries ", rpc::kMaxFrameBody),
        kMakeItSmaller));
    publish.clear_value();
    publish.clear_inner();
    publish.clear_inner_actors();
  }
  raylet_.push(message);
  if (pending) publish_when_known(slot);
}

// From when the raylet hears of them it counts the handles for the value, whatever becomes of ours. So ours come first.
void References::publish_actors(const ObjectSlot& slot, proto::PublishObject& publish) {
  if (!slot.inner || !slot.inner->actors) return;
  flush();
  for (const ActorId& actor : *slot.inner->actors) set_id(publish.add_inner_actors(), actor);
  in_values_ = batches_told_;
}

void References::wanted(const ObjectId& id) {
  if (ObjectSlot* slot = table_->own(id.counter); slot && slot->id == id) return share(*slot);
  proto::ToRaylet message;
  set_id(message.mutable_publish_object()->mutable_object(), id);
  message.mutable_publish_object()->set_gone(true);
  raylet_.push(message);
}

void References::resolve(ObjectSlot& slot) {
  if (slot.ready() || slot.call) return;
  slot.call = true;
  ask_for_value(slot);
}

void References::resolve_result(ObjectSlot& slot, const Sealed& sealed) {
  slot.owner = nullptr;  // the call has ended; its value is on its way
  slot.exported = true;
  hold(slot);
  proto::ToRaylet message;
  set_id(message.mutable_resolve_object()->mutable_sealed_on(), sealed.node);
  message.mutable_resolve_object()->set_sealed_bytes(sealed.bytes);
  ask_for_value(slot, std::move(message));
}

void References::sealed(ObjectSlot& slot) {
  slot.exported = true;
  slot.shared.store(true, std::memory_order_relaxed);
  if (slot.inner) publish_with_inner(slot);
}

void References::ask_for_value(ObjectSlot& slot, proto::ToRaylet message) {
  flush();  // its first handle is known before its value is asked for
  set_id(message.mutable_resolve_object()->mutable_object(), slot.id);
  message.mutable_resolve_object()->set_fetch(true);
  ObjectTable::retain(slot);  // it may fail (cancelled) and be let go of before the answer
  raylet_.request(message, [this, &slot](RayletLink::Answer answer, std::vector<base::Fd>&) {
    on_value(slot, answer);
    table_->release(slot);
  });
}

void References::on_value(ObjectSlot& slot, const RayletLink::Answer& answer) {
  if (!answer.ok()) return table_->fail(slot, record_of(answer.status()));
  if (const proto::Failure* failure = failure_in(*answer)) return table_->fail(slot, record_of(*failure));
  const proto::ObjectValue& value = answer->object_value();
  if (!value.in_arena()) return table_->fulfil(slot, std::as_bytes(std::span(value.value())));
  take_from_arena(slot, value);
}

void References::take_from_arena(ObjectSlot& slot, const proto::ObjectValue& value) {
  if (arena_.has()) {
    slot.pinned = true;
    return table_->fulfil_in_arena(slot, arena_.read(value.offset_bytes(), value.size_bytes()));
  }
  ObjectTable::retain(slot);  // until the last piece is here
  pieces_.read(slot.id, static_cast<size_t>(value.size_bytes()),
               [this, &slot](base::StatusOr<ObjectPieces::Value> read) {
                 if (read.ok())
                   table_->fulfil_with(slot, std::move(read->bytes), read->size);
                 else
                   table_->fail(slot, record_of(read.status()));
                 table_->release(slot);
               });
}

void References::freeing(ObjectSlot& slot) {
  if (slot.pinned) {
    proto::ToRaylet message;
    set_id(message.mutable_release_object()->mutable_object(), slot.id);
    raylet_.push(message);
  }
  if (held_.erase(slot.id) != 0) return;
  if (slot.watched && !slot.exported && unheld_) unheld_(slot.id);
  if (!slot.own || slot.exported) dropped_.push_back(slot.id);
}

void References::release_actors(std::span<const ActorId> actors) {
  for (const ActorId& actor : actors)
    if (last_handle_ && actor_handles(actor) == 1)
      last_handle_(actor);
    else
      release_actor(actor);
}

bool References::retain_actor(const ActorId& actor) {
  if (actors_[actor]++ != 0) return false;
  if (actors_dropped_.erase(actor) == 0) actors_held_.insert(actor);
  return true;
}

bool References::release_actor(const ActorId& actor) {
  auto found = actors_.find(actor);
  if (found == actors_.end() || --found->second != 0) return false;
  actors_.erase(found);
  if (actors_held_.erase(actor) == 0) actors_dropped_.insert(actor);
  return true;
}

namespace {

// Moves ids into the message until that has `room` no more.
template <class Ids, class Add>
void take_some(Ids& ids, size_t& room, Add add) {
  auto at = ids.begin();
  for (; at != ids.end() && room > 0; ++at, --room) set_id(add(), *at);
  ids.erase(ids.begin(), at);
}

}  // namespace

bool References::take_batch(proto::ToRaylet& message) {
  if (!dirty()) return false;
  proto::HoldRefs& refs = *message.mutable_hold_refs();
  size_t room = kBatch;
  take_some(held_, room, [&] { return refs.add_held(); });
  take_some(dropped_, room, [&] { return refs.add_dropped(); });
  take_some(actors_held_, room, [&] { return refs.add_actors_held(); });
  take_some(actors_dropped_, room, [&] { return refs.add_actors_dropped(); });
  if (!refs.actors_held().empty()) ++batches_told_;
  return true;
}

void References::flush() {
  for (proto::ToRaylet message; take_batch(message); message.Clear()) raylet_.push(message);
}

void References::flush_and_confirm(Confirm what, std::function<void()> known) {
  proto::ToRaylet message;
  for (take_batch(message); dirty(); take_batch(message)) {
    raylet_.push(message);
    message.Clear();
  }
  const bool actors = what == Confirm::kActorsToo && batches_known_ != batches_told_;
  message.mutable_hold_refs()->set_confirm_actors(actors);
  const uint64_t batches = actors ? batches_told_ : batches_known_;
  raylet_.request(message, [this, batches, known = std::move(known)](RayletLink::Answer, std::vector<base::Fd>&) {
    batches_known_ = std::max(batches_known_, batches);
    known();
  });
}

}  // namespace rayo::worker
