#include "runtime/worker/call_notes.h"

#include <rayo/internal/registry.h>

#include "runtime/base/clock.h"

namespace rayo::worker {

namespace {

const char* name_of(const CallHistory::Record& record) {
  if (!record.name_is_id) return reinterpret_cast<const char*>(record.name);
  const internal::Function* function = internal::find_function(record.name);
  return function ? function->name : "";
}

// Of a call that this process made.
const char* state_of(ObjectTable& table, uint64_t counter) {
  const ObjectSlot* slot = table.own(counter);
  if (!slot) return "ended";  // nobody wants its result any more
  if (slot->ready()) return slot->error ? "failed" : "finished";
  return slot->owner ? "submitted" : "waiting";
}

const char* state_of(const CallHistory::Record& record) {
  if (record.ended == 0) return "running";
  return record.failed ? "failed" : "finished";
}

}  // namespace

proto::CallsTold call_notes(const CallNotes& from, uint64_t most) {
  proto::CallsTold told;
  const base::TickClock::Reading reading = from.ticks.reading();
  from.history.each(most, [&](const CallHistory::Record& record) {
    proto::CallNote& note = *told.add_calls();
    note.mutable_call()->set_home(record.made ? from.own.home : record.home);
    note.mutable_call()->set_process(record.made ? from.own.process : record.process);
    note.mutable_call()->set_counter(record.counter);
    note.set_actor(record.target);
    note.set_name(name_of(record));
    note.set_made(record.made);
    note.set_at_unix_us(reading.unix_us(record.at));
    if (record.ended != 0) note.set_ended_at_unix_us(reading.unix_us(record.ended));
    note.set_state(record.made ? state_of(from.table, record.counter) : state_of(record));
  });
  return told;
}

}  // namespace rayo::worker
