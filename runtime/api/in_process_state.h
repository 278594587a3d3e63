// What everything-in-one-process keeps of objects, calls and actors: plain data, guarded by InProcess's one
// lock, except where it says otherwise.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <rayo/internal/backend.h>
#include <rayo/internal/registry.h>

#include "runtime/worker/call_fibers.h"

namespace rayo::api {

struct Actor;
struct Call;
struct LocalStream;

// A value or the place where one will be. It lives while it is counted: by refs of the user, by calls that
// take or make it, by values that hold a ref to it.
struct Object {
  ObjectId id;
  int64_t count = 0;
  bool ready = false;
  // Once ready these never change: a reader that counts the object needs no lock.
  std::vector<std::byte> value;
  std::optional<ErrorRecord> error;
  std::vector<Object*> inner;         // counted
  std::vector<ActorId> inner_actors;  // counted
  LocalStream* stream = nullptr;      // of a marker: whose end nobody but its holders reads
  // Until ready.
  Call* producer = nullptr;                     // null: nobody, or a put
  std::vector<Call*> dependents;                // tasks that wait for it
  std::vector<internal::ReadyNotice*> notices;  // each with a count of its own
};

// Whatever runs user code: an actor, or one task. `blocked_on` is what it waits for in get.
struct Runner {
  Actor* actor = nullptr;
  std::string name;
  const Object* blocked_on = nullptr;
  bool stopped = false;    // killed or shut down: waiting in it ends with Cancelled
  bool cancelled = false;  // what it runs: nobody waits for its result any more
};

struct Call {
  const internal::Function* function = nullptr;
  std::vector<std::byte> arguments;
  std::vector<Object*> refs;          // counted; arguments that are refs
  std::vector<Object*> inner;         // counted
  std::vector<ActorId> inner_actors;  // counted
  Object* result = nullptr;           // counted; null for a constructor
  Actor* actor = nullptr;             // null for a task
  size_t waiting = 0;                 // of a task: refs that are not ready
  Runner* runner = nullptr;           // while it runs
};

// A stream: what was written and not taken yet. Gone when its writer and its marker are.
struct LocalStream {
  struct Item {
    std::vector<std::byte> value;
    std::vector<Object*> inner;         // counted
    std::vector<ActorId> inner_actors;  // counted
  };
  uint32_t window = 0;
  int64_t window_bytes = 0;
  ActorId maker;  // nil: no actor
  std::deque<Item> items;
  int64_t bytes = 0;             // of items
  const void* reader = nullptr;  // the first that asked
  bool writer = true;            // lives
  bool marker = true;            // lives
  bool ended = false;            // no more items will be written
  bool cancelled = false;        // nobody reads
  std::optional<ErrorRecord> error;

  bool room() const { return items.size() < window && bytes < window_bytes; }
};

struct Actor {
  ActorId id;
  std::string class_name;
  std::string name;  // "" unnamed
  std::string name_space;
  int64_t count = 0;  // handles
  Runner runner;
  const internal::Function* constructor = nullptr;
  void* self = nullptr;  // touched by its thread alone
  std::unique_ptr<Call> construction;
  std::deque<std::unique_ptr<Call>> mailbox;
  std::vector<Call*> current;  // what its thread is at
  bool may_restart = false;    // as its options say; here there is one life
  size_t most_concurrent = 1;
  size_t max_pending = 0;                      // 0: no limit
  std::unique_ptr<worker::CallFibers> fibers;  // most_concurrent > 1; of its thread alone
  std::optional<ErrorRecord> death;            // what its callers get; set: it takes no more calls
  std::condition_variable wake;
  std::thread thread;
};

}  // namespace rayo::api
