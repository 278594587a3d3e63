// This process's side of its node's arena: values too large for a frame are written there once and read where they lie.
//
//   auto place = arena.store(id, {&bytes, 1});      // create, write, seal: waits for the raylet, so never from the sink
//   internal::Bytes value = arena.read(offset, size);
//
// Under the baton, which store() gives up while it copies. Without an arena (a remote driver, a node with none) has()
// is false.
#pragma once

#include <optional>

#include <rayo/internal/backend.h>

#include "object_store/arena.h"
#include "runtime/worker/engine.h"
#include "runtime/worker/raylet_link.h"

namespace rayo::worker {

// Larger values go to the arena; results up to this come back in the reply.
inline constexpr size_t kInlineValue = 100u << 10;

class ArenaStore {
 public:
  ArenaStore(Engine& engine, RayletLink& raylet) : engine_(engine), raylet_(raylet) {}
  void open(object_store::ArenaView view) { view_.emplace(std::move(view)); }

  // The mapping stays where somebody `reads` from it, and all of it where somebody writes.
  void close(bool reads);

  bool has() const { return view_.has_value(); }
  // Where the parts lie now, one behind the other, sealed under that id. OutOfMemory's status: the arena is full.
  base::StatusOr<internal::Bytes> store(const ObjectId& id, std::span<const internal::Bytes> parts);
  // Empty where the raylet names bytes that the arena does not have.
  internal::Bytes read(int64_t offset, int64_t size) const;

 private:
  Engine& engine_;
  RayletLink& raylet_;
  std::optional<object_store::ArenaView> view_;
  int writing_ = 0;  // threads that copy without the baton
};

}  // namespace rayo::worker
