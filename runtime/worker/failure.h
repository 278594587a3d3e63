// Errors cross wires as proto::Failure and reach users as rayo::ErrorRecord; the kinds have the same numbers on both
// sides. Pure functions, any thread.
#pragma once

#include <string>
#include <string_view>

#include <rayo/error.h>

#include "runtime/base/status.h"
#include "runtime/proto/common.pb.h"

namespace rayo::worker {

ErrorRecord record_of(const proto::Failure& failure);
ErrorRecord record_of(const base::Status& status);
proto::Failure failure_of(const ErrorRecord& record);
DeathRecord death_of(const proto::DeathRecord& death);

inline ErrorRecord error_record(ErrorKind kind, std::string text, std::string next_step = {}) {
  return {.kind = kind, .text = std::move(text), .next_step = std::move(next_step)};
}

// The error of every call to an actor that ended so; `who` is "Counter (3f2a...)".
ErrorRecord actor_died(std::string_view who, const proto::DeathRecord& death);
// `limit`: ActorOptions::max_pending_calls.
ErrorRecord too_many_pending(std::string_view who, uint64_t limit);
// As actor_died, for a task whose worker ended.
ErrorRecord task_worker_died(std::string_view task, const proto::DeathRecord& death);

// Ids on the wires.
template <class IdType>
IdType id_of(const proto::Id& id) {
  return {id.high(), id.low()};
}
inline ObjectId id_of(const proto::ObjectId& id) { return {id.home(), id.process(), id.counter()}; }
template <class IdType>
void set_id(proto::Id* out, const IdType& id) {
  out->set_high(id.high);
  out->set_low(id.low);
}
inline void set_id(proto::ObjectId* out, const ObjectId& id) {
  out->set_home(id.home);
  out->set_process(id.process);
  out->set_counter(id.counter);
}

}  // namespace rayo::worker
