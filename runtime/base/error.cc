// What <rayo/error.h> declares.
#include <utility>

#include <rayo/error.h>

namespace rayo {
inline namespace v0 {

const char* name_of(DeathKind kind) {
  switch (kind) {
    case DeathKind::kUnknown:
      return "unknown";
    case DeathKind::kExit:
      return "exit";
    case DeathKind::kSignal:
      return "signal";
    case DeathKind::kOutOfMemory:
      return "out_of_memory";
    case DeathKind::kNodeLost:
      return "node_lost";
    case DeathKind::kKilled:
      return "killed";
    case DeathKind::kStartFailed:
      return "start_failed";
    case DeathKind::kFenced:
      return "fenced";
    case DeathKind::kDriverGone:
      return "driver_gone";
    case DeathKind::kOutOfScope:
      return "out_of_scope";
    case DeathKind::kStopped:
      return "stopped";
  }
  return "unknown";
}

namespace {
std::string what_of(const ErrorRecord& record) {
  std::string what = record.text;
  if (!record.next_step.empty()) what.append("\ntry: ").append(record.next_step);
  return what;
}
}  // namespace

Error::Error(ErrorRecord record) {
  State state{std::move(record), {}};
  state.what = what_of(state.record);
  state_ = std::make_shared<const State>(std::move(state));
}

void throw_error(ErrorRecord record) {
  switch (record.kind) {
    case ErrorKind::kInternal:
      throw Error(std::move(record));
    case ErrorKind::kTask:
    case ErrorKind::kTaskSystem:
      throw TaskError(std::move(record));
    case ErrorKind::kActorDied:
      throw ActorDied(std::move(record));
    case ErrorKind::kObjectLost:
      throw ObjectLost(std::move(record));
    case ErrorKind::kOutOfMemory:
      throw OutOfMemory(std::move(record));
    case ErrorKind::kUnschedulable:
      throw Unschedulable(std::move(record));
    case ErrorKind::kCancelled:
      throw Cancelled(std::move(record));
    case ErrorKind::kTimeout:
      throw Timeout(std::move(record));
    case ErrorKind::kUnavailable:
      throw Unavailable(std::move(record));
    case ErrorKind::kBackpressure:
      throw Backpressure(std::move(record));
    case ErrorKind::kDeadlock:
      throw Deadlock(std::move(record));
    case ErrorKind::kTypeMismatch:
      throw TypeMismatch(std::move(record));
    case ErrorKind::kInvalid:
      throw Invalid(std::move(record));
  }
  throw Error(std::move(record));
}

}  // namespace v0
}  // namespace rayo
