// What the processes of this node have called and run of late: asked of all of them at once, for `rayo list tasks`.
//
//   for (proto::ProcessCalls& one : calls.ask_all(loop.deadline(1s))) ...   // in a fiber
//
// Loop thread only.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "runtime/base/loop/event.h"
#include "runtime/raylet/processes.h"

namespace rayo::raylet {

class CallLists {
 public:
  explicit CallLists(Processes& processes) : processes_(processes) {}

  // Of those that answer before the deadline; one that ends meanwhile is not waited for.
  std::vector<proto::ProcessCalls> ask_all(base::TimePoint deadline);
  void told(ProcessId from, const proto::CallsTold& calls);
  void process_gone(ProcessId process);

 private:
  struct Question {
    std::set<ProcessId> waits_for;
    std::vector<proto::ProcessCalls> answers;
    base::WaitList changed;
  };

  Processes& processes_;
  uint64_t last_ = 0;
  std::map<uint64_t, Question*> open_;  // each on the stack of its fiber
};

}  // namespace rayo::raylet
