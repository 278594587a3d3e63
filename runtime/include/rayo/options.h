// Options of init, spawn and remote, and the records that context() and nodes() answer. Aggregates: name the
// members that differ from their defaults.
//
//   auto counter = rayo::spawn<Counter>({.name = "hits", .resources = {.cpus = 0.5}, .max_restarts = 3});
//   auto fast = rayo::remote<train>({.resources = {.gpus = 1, .gpu_memory = 8ll << 30}}, model);
//
// Sizes are bytes, durations std::chrono. Plain values, no thread rules.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <rayo/id.h>

namespace rayo {
inline namespace v0 {

// What a task holds while it runs and an actor while it lives. Fractions count in steps of 1/10,000.
struct Resources {
  // Without a value: a task holds 1 CPU; an actor needs 1 free CPU to be placed and holds none while it
  // lives.
  std::optional<double> cpus{};
  double gpus = 0;                         // devices; a fraction shares one device
  int64_t gpu_memory = 0;                  // bytes on each device asked for
  int64_t memory = 0;                      // bytes
  std::map<std::string, double> custom{};  // by name, as given to `rayo start --resources`
};

// A condition on a node's label: its value is one of `values` (with `negate`: none of them). No values: the label is
// there (with `negate`: is not).
struct LabelRule {
  std::string key{};
  std::vector<std::string> values{};
  bool negate = false;
};

// How long an actor lives, where it is not killed.
enum class Lifetime : uint8_t {
  kHandles,   // as long as a handle of it, and the program that spawned it
  kDetached,  // until rayo::kill. It needs a name, by which later programs of its namespace find it
};

struct ActorOptions {
  // Unique in its namespace while the actor lives; empty: reached by its handles alone.
  std::string name{};
  std::string name_space{};  // empty: that of this program
  // With a name: the living actor of that name, where there is one (constructor arguments unused).
  bool get_if_exists = false;
  Resources resources{};
  std::vector<LabelRule> labels{};  // a node must satisfy all of them
  NodeId node{};                    // where it must run; nil: anywhere
  bool node_soft = false;           // another node will do where `node` cannot
  bool spread = false;              // one after the other on different nodes, the least loaded first
  // After deaths it comes back, on another node where its own is lost: its constructor runs again, with the same
  // arguments. The first restart is at once, the next ones wait 1 s, 2 s ... 30 s; a life of a minute begins anew.
  // Calls made meanwhile wait. -1: without end.
  int max_restarts = 0;
  // Calls that were under way when a life ended get ActorDied, or are sent again to the next life so often: they may then
  // have run more than once. -1: without end.
  int max_call_retries = 0;
  // Calls of one process to it that have not ended; one more throws Backpressure at once. 0: no limit but the window of
  // 1024, for which a caller waits.
  int max_pending_calls = 0;
  Lifetime lifetime = Lifetime::kHandles;
  // Calls of it that may have begun at a time. Over 1 each runs on a stack of its own; still one thread runs them all, so
  // the actor's state changes only where a method waits (get, wait, Stream::next, StreamWriter::write, blocking).
  int max_concurrency = 1;
  // Bytes, of those stacks. 0: none, for languages whose methods end their calls from threads of their own.
  int64_t stack_size = 256 << 10;
  std::chrono::milliseconds start_timeout{60'000};  // covers the constructor
  // Until Unschedulable, where no living node could ever hold it; 0: never.
  std::chrono::milliseconds schedule_timeout{60'000};
  std::map<std::string, std::string> environment{};  // of the actor's process
};

struct KillOptions {
  // False: this life alone ends, and what is left of max_restarts applies. An actor without a process (it waits for its place,
  // or for its next life) is left as it is.
  bool no_restart = true;
};

struct TaskOptions {
  Resources resources{};
  // labels, node, node_soft, spread, schedule_timeout: as of actors.
  std::vector<LabelRule> labels{};
  NodeId node{};
  bool node_soft = false;
  bool spread = false;  // each such task asks the head for its place
  std::chrono::milliseconds schedule_timeout{60'000};
  // A task whose process or node dies runs again, where there is room, at most so often: then it may have run more than
  // once. 0: never; -1: without end.
  int max_retries = 3;
  // Its process ends after at most so many runs: for code that does not give back what it takes. 0: no limit.
  int max_calls = 0;
};

struct InitOptions {
  // HOST:PORT of the head or of any node; several, with commas: the first that answers. Empty: RAYO_ADDRESS, else the one
  // live session of this home, else a cluster of this program's own that ends with it. "auto": the same, and Unavailable
  // in the place of one of its own; "local": one of its own, whatever runs here.
  std::string address{};
  std::string name_space{};   // of names; empty: one of this program's own
  bool in_process = false;    // everything in this process, without a cluster: unit tests, debuggers
  bool log_to_driver = true;  // what this program's workers print appears here
  // Of a cluster of this program's own; init throws Invalid where it joins another one.
  std::optional<double> num_cpus{};  // empty: what the machine and its cgroup allow
  std::optional<int> num_gpus{};     // empty: those that the machine has
  std::map<std::string, double> resources{};
  std::map<std::string, std::string> labels{};  // of its node
  int64_t object_store_memory = 0;              // bytes; 0: a share of the machine's memory
};

enum class NodeState : uint8_t {
  kAlive,
  kSuspect,   // the head has heard nothing of it for nodes.suspect_after
  kDraining,  // of a later version (`rayo drain`): no node is in this state yet
  kDead,
};

struct DeviceRecord {
  int index = 0;
  std::string uuid{};
  std::string model{};
  std::string state{};  // ok, hot, sick, foreign
  int64_t memory_total_bytes = 0;
  int64_t memory_used_bytes = 0;
  double free = 0;                // of 1
  int64_t memory_free_bytes = 0;  // what Resources::gpu_memory may still ask of it
};

struct NodeRecord {
  NodeId id{};
  std::string hostname{};
  std::string address{};  // HOST:PORT
  NodeState state = NodeState::kAlive;
  bool head = false;  // stands beside the head
  std::map<std::string, std::string> labels{};
  std::map<std::string, double> total{};  // "cpu", "gpu", "memory" (bytes), custom names
  std::map<std::string, double> free{};
  std::vector<DeviceRecord> devices{};
};

// Where this code runs.
struct ContextRecord {
  ClusterId cluster{};
  std::string cluster_name{};
  NodeId node{};
  ProcessId process{};
  JobId job{};
  std::string name_space{};
  std::string address{};     // of the node
  ActorId actor{};           // nil outside an actor
  uint32_t incarnation = 0;  // of the actor, from 1
  bool in_process = false;
  bool remote = false;                        // a driver without a raylet on its machine
  std::vector<std::string> devices{};         // UUIDs that the current lease holds
  std::map<std::string, double> resources{};  // that it holds: "cpu", "gpu", "memory" (bytes), custom names
  std::string actor_name{};                   // empty: it has none
  ObjectId call{};  // the call that runs on this thread, by the id of its result; nil: none does
};

}  // namespace v0
}  // namespace rayo
