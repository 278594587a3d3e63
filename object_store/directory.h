// What one node knows of objects: of those minted here (this node is their home) everything, of others what its own
// processes hold.
//
// References are counted in two levels: a process tells its raylet at its first and after its last handle; a raylet
// tells the object's home at its node's first and after its last. So nobody keeps chains of borrowers, and an owner's
// death loses nothing that its home already knows.
//
//   Directory directory(node, capacity, clock);
//   directory.publish(process, message);                  // events in ...
//   directory.resolve(ticket, object, true, process);
//   for (Action& action : directory.take_actions()) ...   // ... actions out: answer a ticket, tell a home, pull, free
//
// A class without I/O, owned by the raylet's loop. Every event may come twice: the state is the same.
//
// Invariants (tests/object_store/directory_test.cc):
//  1. every ticket is answered exactly once, also when processes and nodes die;
//  2. an extent is used by at most one object, and freed when its object is;
//  3. an object that a living process or node holds is never freed, nor a call's result before its caller has heard of it;
//  4. after everybody has let go and kLinger has passed (kLastLinger where its job is over), nothing is left;
//  5. what a living minter does not own is known to be lost soon after somebody asks for it;
//  6. what a caller knows to have been sealed on some node is had from there, or lost with that node;
//  7. that it could not be had from some node is told to who waits, and to nobody who comes later.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <rayo/id.h>

#include "object_store/extents.h"
#include "object_store/warm_extents.h"
#include "runtime/base/clock.h"
#include "runtime/proto/common.pb.h"

namespace rayo::object_store {

using NodeKey = uint64_t;     // base::short_id of a node
using ProcessKey = uint64_t;  // and of a process
using Ticket = uint64_t;      // one waiter; chosen by the shell

// What is known of an object once it is known.
struct Known {
  enum class Kind : uint8_t { kValue, kArena, kFailure };
  Kind kind = Kind::kValue;
  std::string value;       // kValue
  int64_t size_bytes = 0;  // kArena
  NodeKey holder = 0;      // kArena: a node that has it
  proto::Failure failure;  // kFailure
};

struct Action {
  enum class Kind : uint8_t {
    kAnswer,  // `ticket` gets `known`; with an offset it lies in this node's arena and is pinned for the asking process
    kAskHome,    // ask the home of `object` for it, from other nodes than `avoid` if it can be; then home_answered() or
                 // home_failed()
    kTellHome,   // this node holds (`held`) or no longer holds `object`; with `copy`: has it in its arena, or no longer
    kPull,       // fetch `object` from `node` into this node's arena at `offset`; then pulled()
    kDropCopy,   // tell `node` that `object` is gone: it may free its copy
    kUnheld,     // tell the process that minted `object` that nobody holds it any more
    kAskMinter,  // somebody waits for `object`, or it is to be freed, and its minter has said nothing of it: it
                 // publishes it, or disowned()
  };
  Kind kind;
  Ticket ticket = 0;
  ObjectId object;
  Known known;
  std::optional<int64_t> offset;
  NodeKey node = 0;
  bool held = false;
  bool copy = false;
  std::vector<NodeKey> avoid;
};

class Directory {
 public:
  // How long an object without holders is kept: longer than any message with a new hold of it can be on its way.
  static constexpr base::Duration kLinger = std::chrono::seconds(2);
  // Of an object whose driver is gone: nobody of its job is left who could be on the way with it.
  static constexpr base::Duration kLastLinger = std::chrono::milliseconds(250);

  Directory(NodeKey self, int64_t arena_bytes, const base::Clock& clock);

  // ---- processes of this node ----
  void process_joined(ProcessKey process);
  void process_died(ProcessKey process, const proto::DeathRecord& record);
  void hold(ProcessKey process, const ObjectId& object);
  void drop(ProcessKey process, const ObjectId& object);
  // From the minting process: the value, its failure, or that it will come (`known` empty).
  // `tell_unheld`: kUnheld once it is freed.
  void publish(ProcessKey process, const ObjectId& object, std::optional<Known> known, bool tell_unheld = false);
  // From the minting process: its callee's node has sealed the result under this id. That node tells so itself, but may be
  // lost before it has: `death`, where it is known to be.
  void result_sealed(ProcessKey process, const ObjectId& object, NodeKey node, int64_t size_bytes,
                     const proto::DeathRecord* death);
  // The minting process was asked, and does not own it (any more): nobody will ever publish it.
  void disowned(ProcessKey process, const ObjectId& object);
  // Space in the arena; nullopt where no size as that is free. The object is the writer's until seal.
  std::optional<int64_t> create(ProcessKey writer, const ObjectId& object, int64_t size_bytes);
  void seal(ProcessKey writer, const ObjectId& object);
  void abort(ProcessKey writer, const ObjectId& object);
  // `fetch`: the answer comes when a large value lies in this node's arena; else as soon as the object is known.
  void resolve(Ticket ticket, const ObjectId& object, bool fetch, ProcessKey process);
  void cancel(Ticket ticket, const ObjectId& object);
  // A sealed object's extent is used by `process` (0: the raylet itself) until unpin; resolve() pins by itself.
  void pin(ProcessKey process, const ObjectId& object);
  void unpin(ProcessKey process, const ObjectId& object);

  // ---- other nodes ----
  void node_hold(NodeKey node, const ObjectId& object);
  void node_drop(NodeKey node, const ObjectId& object);
  void node_has_copy(NodeKey node, const ObjectId& object, int64_t size_bytes);
  void node_lost_copy(NodeKey node, const ObjectId& object);
  // Answered as with fetch false; holds nothing. `avoid`: nodes from which the asker could not have it.
  void asked(Ticket ticket, const ObjectId& object, std::vector<NodeKey> avoid);
  void copy_dropped(const ObjectId& object);  // its home has freed it
  void node_died(NodeKey node, const proto::DeathRecord& record);
  void home_answered(const ObjectId& object, const Known& known);
  // Its home could not be asked: who waits is told, and who comes later asks again.
  void home_failed(const ObjectId& object, const proto::Failure& why);
  void pulled(const ObjectId& object, const std::optional<proto::Failure>& failure);

  // ---- the shell ----
  // Where a sealed object lies, for serving a pull; nullopt where it is not (or no longer) here.
  struct Extent {
    int64_t offset = 0;
    int64_t size_bytes = 0;
  };
  std::optional<Extent> sealed(const ObjectId& object) const;
  // For people: what is known here of each object.
  struct Listed {
    ObjectId object;
    std::optional<Known::Kind> kind;  // empty: it is to come
    int64_t size_bytes = 0;
    std::string failure;
    bool here = false;   // in this node's arena
    size_t holders = 0;  // processes of this node
    size_t pins = 0;     // of them in use of the arena's copy
  };
  std::vector<Listed> list() const;
  // Frees what nobody has held for kLinger, and asks minters of what others wait for; call it every kLastLinger, and when
  // the arena is full.
  void sweep();
  std::vector<Action> take_actions();
  // Free bytes of the arena whose memory may go back to the machine: do that before the next call of anything here.
  std::vector<WarmExtents::Piece> take_cold() { return warm_.take_cold(clock_.now()); }

  size_t size() const { return entries_.size(); }
  int64_t used_bytes() const { return extents_.used_bytes(); }
  int64_t capacity_bytes() const { return extents_.capacity_bytes(); }

 private:
  struct Waiter {
    Ticket ticket = 0;
    bool fetch = false;
    ProcessKey process = 0;  // 0: another node asks
    std::vector<NodeKey> avoid;
  };
  struct Entry {
    std::optional<Known> known;
    std::optional<Extent> extent;
    bool is_sealed = false;
    bool pulling = false;
    NodeKey source = 0;         // from there
    std::set<NodeKey> failed;   // pulls from there that did, and nodes that died, since somebody began to wait
    proto::Failure why_failed;  // the last of them
    bool asked_home = false;
    bool tell_unheld = false;
    bool promised = false;      // its minter has published it
    bool minter_knows = false;  // its minter has spoken of it in any way
    bool asks_minter = false;   // before it is freed
    ProcessKey writer = 0;      // made here; a copy that was made here stays until its home says so
    std::set<ProcessKey> holders;
    std::map<ProcessKey, int> pins;
    std::set<NodeKey> node_holders;
    std::set<NodeKey> copies;  // at home: other nodes that have it in their arena
    std::vector<Waiter> waiters;
    base::TimePoint idle_since{};
    bool job_over = false;
  };

  bool is_home(const ObjectId& object) const { return object.home == self_; }
  Entry& entry(const ObjectId& object);
  std::optional<int64_t> allocate(int64_t size_bytes);
  void release(Entry& entry);
  void await(const ObjectId& object, Waiter waiter);
  void ask_home(const ObjectId& object, Entry& entry);
  void look_elsewhere(const ObjectId& object, Entry& entry);
  void give_up(const ObjectId& object, Entry& entry, const proto::Failure& why);
  NodeKey holder_for(const Entry& entry, const std::vector<NodeKey>& avoid) const;
  bool in_use(const ObjectId& object, const Entry& entry) const;
  bool asks_first(const ObjectId& object, Entry& entry);
  static void spoken_of(ProcessKey process, const ObjectId& object, Entry& entry);
  void touch(const ObjectId& object, Entry& entry);
  void learn(const ObjectId& object, Entry& entry, Known known);
  void fail(const ObjectId& object, Entry& entry, const std::string& text, const proto::DeathRecord* record);
  void answer_waiters(const ObjectId& object, Entry& entry);
  void start_pull(const ObjectId& object, Entry& entry);
  void ask_minters();
  void erase(std::unordered_map<ObjectId, Entry>::iterator found);
  void lose_copies(const ObjectId& object, Entry& entry, NodeKey node, const proto::DeathRecord& record);
  void act(Action action) { actions_.push_back(std::move(action)); }

  const NodeKey self_;
  const base::Clock& clock_;
  Extents extents_;
  WarmExtents warm_;
  std::set<ProcessKey> processes_;
  std::unordered_map<ObjectId, Entry> entries_;
  std::set<ObjectId> idle_;
  std::map<ObjectId, base::TimePoint> unheard_;  // at home: asked for since then, and their minters have said nothing
  std::vector<Action> actions_;
};

}  // namespace rayo::object_store
