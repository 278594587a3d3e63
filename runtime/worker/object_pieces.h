// Values that lie in an arena which this process does not have (a remote driver): read from its raylet piece by piece,
// one under way at a time, so that a gigabyte neither fills the raylet's queue nor holds up what else it is told.
//
//   pieces.read(id, size, [&](auto value) { ... });   // value: StatusOr<ObjectPieces::Value>
//
// Everything under the baton. Once the raylet is gone every reading ends with Unavailable.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <unordered_map>

#include <rayo/id.h>

#include "runtime/worker/raylet_link.h"

namespace rayo::worker {

class ObjectPieces {
 public:
  struct Value {
    std::unique_ptr<std::byte[]> bytes;
    size_t size = 0;
  };
  using Done = std::function<void(base::StatusOr<Value>)>;

  explicit ObjectPieces(RayletLink& raylet) : raylet_(raylet) {}

  // An object that the raylet holds for this process; `done` is called later, once. It is let go of then.
  void read(const ObjectId& id, size_t size, Done done);

 private:
  struct Reading {
    Value value;
    size_t arrived = 0;
    Done done;
  };
  void ask(const ObjectId& id, const Reading& reading);
  void on_piece(const ObjectId& id, const RayletLink::Answer& answer);
  void finish(const ObjectId& id, const base::Status& status);

  RayletLink& raylet_;
  std::unordered_map<ObjectId, Reading> readings_;
};

}  // namespace rayo::worker
