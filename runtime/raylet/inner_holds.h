// What lies inside the values of this node's objects: refs, and handles of actors. The node itself counts each of them from
// when it hears of the value until the object is gone, so that whoever reads it meets them alive, however long that takes and
// whether or not the process that made it still runs. Decides only; the shell holds and drops. One owner (the loop thread).
//
//   hold(inner.keep(object, {refs, actors}));   // its value is known: what no other value held before
//   drop(inner.let_go(object));                 // it is gone: what no other value holds any more
#pragma once

#include <unordered_map>
#include <vector>

#include <rayo/id.h>

namespace rayo::raylet {

class InnerHolds {
 public:
  struct Inside {
    std::vector<ObjectId> refs;
    std::vector<ActorId> actors;
    bool empty() const { return refs.empty() && actors.empty(); }
  };

  // Of an object that is known already: nothing, its value does not change.
  Inside keep(const ObjectId& object, Inside inside);
  Inside let_go(const ObjectId& object);

 private:
  std::unordered_map<ObjectId, Inside> values_;
  std::unordered_map<ObjectId, int> refs_;  // in how many values
  std::unordered_map<ActorId, int> actors_;
};

}  // namespace rayo::raylet
