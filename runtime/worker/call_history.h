// The last calls of this process, those that it made and those that it ran: what `rayo list tasks` and timelines are made
// of. Noting one fills a record of 64 bytes in a ring; nothing is allocated, and nobody reads it until somebody asks. The
// ring's pages are touched as calls come.
//
//   const CallHistory::Place place = history.began({home, process, call_id}, target, "Counter::add");
//   ... the call runs ...
//   history.ended(place, failed, nullptr);
//
// Under the baton.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <rayo/id.h>

#include "runtime/base/ticks.h"

namespace rayo::worker {

class CallHistory {
 public:
  static constexpr size_t kKept = 10'000;

  // Which record, as long as it is in the ring. 0: none.
  using Place = uint64_t;

  struct Record {
    // The call's id, which is its result's; of one made here its counter alone, of a constructor nothing.
    uint64_t home, process, counter;
    uint64_t target;  // short id of the actor; 0: a task
    uint64_t at;      // in ticks, as `ended`: when it was made, or began to run
    uint64_t ended;   // 0: it runs
    uint64_t name;    // const char*, or a function's id
    uint64_t place : 61;
    uint64_t made : 1;  // by this process; else run by it
    uint64_t name_is_id : 1;
    uint64_t failed : 1;
  };
  static_assert(sizeof(Record) == 64);

  // Names live as long as the process; null: the function is named by its id.
  void made(uint64_t counter, uint64_t target, const char* name, uint64_t function) {
    Record& record = next({0, 0, counter}, target);
    record.made = true;
    record.name_is_id = name == nullptr;
    record.name = name ? reinterpret_cast<uint64_t>(name) : function;
  }
  Place began(const ObjectId& call, uint64_t target, const char* name) {
    Record& record = next(call, target);
    record.made = record.name_is_id = false;
    record.name = reinterpret_cast<uint64_t>(name);
    return record.place;
  }
  // `name`: a better one than began() had, or null.
  void ended(Place place, bool failed, const char* name) {
    Record& record = records_[place % kKept];
    if (record.place != place) return;  // so many have come since
    record.ended = base::TickClock::now();
    record.failed = failed;
    if (name) record.name = reinterpret_cast<uint64_t>(name);
  }

  // Visits the newest `most` of what is kept, the oldest of them first.
  template <class Visit>
  void each(uint64_t most, Visit&& visit) const {
    const uint64_t count = std::min({last_, static_cast<Place>(kKept), most});
    for (Place place = last_ - count + 1; place <= last_; ++place) visit(records_[place % kKept]);
  }

 private:
  Record& next(const ObjectId& call, uint64_t target) {
    Record& record = records_[++last_ % kKept];
    record.home = call.home;
    record.process = call.process;
    record.counter = call.counter;
    record.target = target;
    record.at = base::TickClock::now();
    record.ended = 0;
    record.place = last_;
    record.failed = false;
    return record;
  }

  // Uninitialised: 640 kB, of which a process touches what it uses.
  const std::unique_ptr<Record[]> records_{new Record[kKept]};
  Place last_ = 0;
};

}  // namespace rayo::worker
