// Errors. Whatever goes wrong with a call, a value or the cluster arrives as a subclass of rayo::Error, with
// what failed, why, what to do next, and where something died the record of that death.
//
//   try {
//     std::printf("%ld\n", counter.call<&Counter::add>(3).get());
//   } catch (const rayo::ActorDied& died) {
//     std::fprintf(stderr, "%s\n", died.what());
//     for (const std::string& line : died.death()->last_log_lines) std::fprintf(stderr, "  %s\n", line.c_str());
//   }
//
// Values without ties to a cluster: copied, kept and read from any thread, also after shutdown().
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <rayo/id.h>

#pragma GCC visibility push(default)  // a library opened at run time uses the program's
namespace rayo {
inline namespace v0 {

enum class DeathKind : uint8_t {
  kUnknown = 0,
  kExit = 1,         // exit_code says how
  kSignal = 2,       // signal says which
  kOutOfMemory = 3,  // the kernel's or the raylet's verdict
  kNodeLost = 4,     // the head has given its node up, or its node was started anew
  kKilled = 5,       // rayo::kill
  kStartFailed = 6,  // never reached init, or the constructor threw
  kFenced = 7,       // its node was thought dead, and another life of the actor took its place
  kDriverGone = 8,   // the program that owned it ended
  kOutOfScope = 9,   // the last handle was dropped
  kStopped = 10,     // rayo stop
};

// "exit", "signal", "out_of_memory" ...: the names of `rayo status --json`.
const char* name_of(DeathKind kind);

// How a process, actor or node ended. The same record is in `rayo list actors --json` and in the cluster's
// events.
struct DeathRecord {
  std::chrono::sys_time<std::chrono::microseconds> at{};
  NodeId node{};
  int64_t pid = 0;
  DeathKind kind = DeathKind::kUnknown;
  int exit_code = 0;
  int signal = 0;
  bool core_dumped = false;
  int64_t rss_peak_bytes = 0;
  uint32_t incarnation = 0;                   // of the actor that ended; 0: it was none
  std::string text{};                         // one sentence
  std::vector<std::string> last_log_lines{};  // at most 20, oldest first
};

// The closed set of kinds: a new one only where a program can react to it differently.
enum class ErrorKind : uint8_t {
  kInternal = 0,
  kTask = 1,        // the user's code threw
  kTaskSystem = 2,  // the process that ran a task died
  kActorDied = 3,
  kObjectLost = 4,
  kOutOfMemory = 5,
  kUnschedulable = 6,
  kCancelled = 7,
  kTimeout = 8,
  kUnavailable = 9,
  kBackpressure = 10,
  kDeadlock = 11,
  kTypeMismatch = 12,
  kInvalid = 13,
};

// An error as a value: what try_get() hands out and what travels between processes.
struct ErrorRecord {
  ErrorKind kind = ErrorKind::kInternal;
  std::string text{};         // "WHAT: CAUSE"
  std::string next_step{};    // empty where nobody can do anything
  std::string remote_type{};  // of kTask: the type that was thrown, as C++ (or Python) spells it
  std::string stack{};        // of kTask: the place that threw, one frame a line
  std::string payload{};      // of kTask: the exception itself where its language can carry it (Python: a pickle)
  std::optional<DeathRecord> death{};
};

// Base of all errors of Rayo. what() is the text and, after a line break, "try: " and the next step.
class Error : public std::exception {
 public:
  explicit Error(ErrorRecord record);
  const char* what() const noexcept override { return state_->what.c_str(); }

  const ErrorRecord& record() const noexcept { return state_->record; }
  ErrorKind kind() const noexcept { return record().kind; }
  const std::string& text() const noexcept { return record().text; }
  const std::string& next_step() const noexcept { return record().next_step; }
  // The death behind the error; null where nothing died.
  const DeathRecord* death() const noexcept { return record().death ? &*record().death : nullptr; }

 private:
  struct State {
    ErrorRecord record;
    std::string what;
  };
  std::shared_ptr<const State> state_;  // copies of an exception share it: copying one must not throw
};

// The user's code threw in a task, method or constructor, or the process that ran a task died (death() is set
// then).
class TaskError : public Error {
 public:
  using Error::Error;
  const std::string& remote_type() const noexcept { return record().remote_type; }
  const std::string& stack() const noexcept { return record().stack; }
  bool system() const noexcept { return kind() == ErrorKind::kTaskSystem; }
};

// The process in which the actor lived has ended, or never began; death() says how. An actor with max_restarts may come
// back: a later call can succeed.
class ActorDied : public Error {
 public:
  using Error::Error;
};
// No copy of the value is left and it cannot be made again.
class ObjectLost : public Error {
 public:
  using Error::Error;
};
// The process was ended for lack of memory, or a value fits no arena.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};
// No living node could ever hold it, and schedule_timeout is over: the text names why, node by node.
class Unschedulable : public Error {
 public:
  using Error::Error;
};
class Cancelled : public Error {
 public:
  using Error::Error;
};
// The time given to get() or to the call is over; the call itself may still go on.
class Timeout : public Error {
 public:
  using Error::Error;
};
// No cluster, not reachable, refused, or used before init() or after shutdown().
class Unavailable : public Error {
 public:
  using Error::Error;
};
// This process has 1,024 calls under way to that actor and none ended within 60 s; or it has max_pending_calls of them, and
// is told at once. Also where a node or the head has no room for more: the text says for what.
class Backpressure : public Error {
 public:
  using Error::Error;
};
// The call would wait for itself: the text names the cycle.
class Deadlock : public Error {
 public:
  using Error::Error;
};
// A value does not fit the type that is asked of it: the text names both.
class TypeMismatch : public Error {
 public:
  using Error::Error;
};
// Wrong use: no such method, a name that is taken, an option out of range.
class Invalid : public Error {
 public:
  using Error::Error;
};

// Throws the subclass that fits record.kind.
[[noreturn]] void throw_error(ErrorRecord record);

}  // namespace v0
}  // namespace rayo
#pragma GCC visibility pop
