// What this process has called and run of late, as it is told to whoever lists tasks. Under the baton.
#pragma once

#include "runtime/proto/worker.pb.h"
#include "runtime/worker/call_history.h"
#include "runtime/worker/object_table.h"

namespace rayo::worker {

struct CallNotes {
  const CallHistory& history;
  const base::TickClock& ticks;
  ObjectTable& table;  // knows what became of the calls that were made here
  ObjectId own;        // node and process (short ids) of this process
};

// The newest `most`.
proto::CallsTold call_notes(const CallNotes& from, uint64_t most);

}  // namespace rayo::worker
