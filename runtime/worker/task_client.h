// This process's tasks: for each shape (what they ask of a node) the backlog, and the workers leased for it. A task
// goes straight to a leased worker; leases stay warm for kWarm and then go back. Decides and does no I/O (CallWire
// does).
//
// Invariants
//  1. A worker has one task, or several short ones (task_window.h); what stands behind one that takes long, or waits for
//  it, is asked back and goes elsewhere.
//  2. A task that may have begun ends with its reply, or with the record of its worker's end; after that it is sent again, as
//  often as its max_retries says. What stood behind it goes elsewhere, uncounted.
//  3. What the raylet was last told of a shape's backlog is never less than half of it, and 0 once it is empty.
#pragma once

#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <rayo/options.h>

#include "runtime/worker/call_wire.h"
#include "runtime/worker/outgoing_call.h"

namespace rayo::worker {

inline constexpr base::Duration kWarm = std::chrono::milliseconds(250);
// What waking a worker that rests costs, some 30 to 100 us: a task that is to begin sooner goes behind others.
inline constexpr base::Duration kWakeUp = std::chrono::microseconds(50);

class TaskClient {
 public:
  TaskClient(ObjectTable& table, CallWire& wire);
  ~TaskClient();

  // True: what this sends is to leave at once; else it may leave together with what follows soon. `program`: the job in
  // whose workers it runs; nil: this process's.
  bool submit(const TaskOptions& options, std::string_view name, std::unique_ptr<OutgoingCall> call,
              const JobId& program = {});
  // A task that has not been sent never will be; null where there is none with that result.
  std::unique_ptr<OutgoingCall> withdraw(const ObjectSlot& result);
  // The reply to a task that was given up: its worker is free again.
  void on_late_reply(PeerId peer, uint64_t call_id, uint64_t ran_us);
  // A worker gives back a task that was sent ahead: it has not begun, and never will there.
  void on_returned(PeerId peer, uint64_t call_id);
  void on_granted(const proto::LeaseGranted& granted);
  // Nobody grants any more: everything that waits fails, and what is submitted later.
  void on_failure(const ErrorRecord& why);
  // How deep in nested tasks this process is, for fairness.
  void set_depth(int depth) { depth_ = depth; }
  // Tasks that wait for a worker.
  size_t backlog() const;

 private:
  class Worker;
  struct Shape;

  Shape& shape_of(const TaskOptions& options, const JobId& program);
  void enqueue(Shape& shape, std::unique_ptr<OutgoingCall> call);
  void unblock(Shape& shape, OutgoingCall* call);
  // Fails one that will not run. What waits for its result does so behind it: a chain of tasks may be long.
  void fail(std::unique_ptr<OutgoingCall> call, const ErrorRecord& why);
  void dispatch(Shape& shape);
  static Worker* choose(Shape& shape, base::Duration expected);
  bool send(Worker& worker, std::unique_ptr<OutgoingCall>& call, base::Duration expected);
  void request(Shape& shape);
  void fail_queue(Shape& shape, const ErrorRecord& why);
  void moved_on(Worker& worker);
  void ask_back(Worker& worker);
  std::unique_ptr<Worker> take_out(Worker& worker);
  enum class Lease { kFree, kSuspect, kGone };  // kGone: its raylet knows of the worker's end
  void remove(Worker& worker, Lease lease);
  // It may have begun at that worker, which is gone: it waits to run again, or fails.
  void end_run(const Worker& gone, std::unique_ptr<OutgoingCall> call);
  // Its other workers will be told to be gone too: what runs again is not to meet them.
  void pass_over(const NodeId& node);
  GiveBack after(const Worker& worker, Lease lease) const;

  ObjectTable& table_;
  CallWire& wire_;
  std::vector<std::unique_ptr<Shape>> shapes_;
  Shape* last_ = nullptr;
  uint64_t next_shape_ = 1;
  int depth_ = 0;
  std::optional<ErrorRecord> gone_;  // why nobody grants any more
  struct Failing {
    std::unique_ptr<OutgoingCall> call;
    ErrorRecord why;
  };
  std::deque<Failing> failing_;  // the first one's result is being failed
  bool at_once_ = false;         // of the submit that is under way
};

}  // namespace rayo::worker
