// The tasks that one leased worker has of this process. The first runs or is about to; the others were sent ahead, so that
// the worker goes on without a round trip. Decides and does no I/O; time is an argument.
//
//   if (window.takes(expected)) window.sent(call_id, std::move(call), expected, now);
//   ...
//   window.ended(call_id, now);
//   if (window.stalled(now)) ask back what stands behind window.first();        // at window.look_at()
//
// Invariants
//  1. More than one task stands at a worker only while all of them together are expected to take at most kAhead.
//  2. A worker that has ended nothing for kStall is asked for what stands behind its first task, once, and is sent nothing
//  ahead until it has ended one: what takes long, or waits for a task behind it, holds up nobody for longer.
//  3. A worker hands over the answer to a task before it begins the next (CallHost::invoke): of one that died, only the
//  first that has no answer may have begun.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/worker/outgoing_call.h"

namespace rayo::worker {

// A new lease costs a fork, some 1.6 ms as measured: less work than that stands better where it is.
inline constexpr base::Duration kAhead = std::chrono::milliseconds(1);
inline constexpr size_t kMostAhead = 64;
// Longer than a worker waits for a core of a loaded machine, as a rule.
inline constexpr base::Duration kStall = std::chrono::milliseconds(5);
// Of a task that nobody has measured: it stands alone.
inline constexpr base::Duration kUnmeasured = std::chrono::hours(1);

// A program that makes functions without end (lambdas, each with its own values) is not to fill memory with their paces.
inline constexpr size_t kMostPaces = 10'000;

// How long the tasks of each function take, by OutgoingCall::code().
class TaskPace {
 public:
  // A longer one counts at once, shorter ones little by little: of a mixture the long ones are to be expected. At most
  // kMostPaces functions are known; with one more, all are measured anew.
  void took(uint64_t code, base::Duration span);
  // kUnmeasured where none has ended.
  base::Duration expected(uint64_t code) const;

 private:
  std::unordered_map<uint64_t, base::Duration> expected_;
};

class TaskWindow {
 public:
  struct Task {
    uint64_t call_id = 0;
    uint64_t function = 0;
    uint64_t code = 0;  // OutgoingCall::code()
    base::Duration expected{};
    std::unique_ptr<OutgoingCall> call;  // null: not to be sent again, nobody waits for it
  };

  bool empty() const { return tasks_.empty(); }
  size_t size() const { return tasks_.size(); }
  // How long all of it is expected to take.
  base::Duration expected() const { return expected_; }
  // Whether one more may be sent.
  bool takes(base::Duration expected) const;
  void sent(Task task, base::TimePoint now);
  // The worker is done with that one: its code; nullopt where it is not here.
  std::optional<uint64_t> ended(uint64_t call_id, base::TimePoint now);
  // Nobody waits for it any more, and it may run for however long.
  void given_up(uint64_t call_id);
  // Was given back, not begun and never to be. False: it is not here. `call` is null where nobody waits for it.
  bool returned(uint64_t call_id, std::unique_ptr<OutgoingCall>& call);

  const Task& first() const { return tasks_.front(); }
  // When to ask stalled(); kForever: nothing stands behind the first.
  base::TimePoint look_at() const;
  // True once each time that the worker comes to a halt with something behind its first task.
  bool stalled(base::TimePoint now);

  // The worker died, and all of its answers are here. Takes out, in their order, those that it cannot have begun and
  // somebody waits for; the first, which it may have begun, remains.
  std::vector<std::unique_ptr<OutgoingCall>> take_unbegun();
  // All the rest that somebody waits for.
  std::vector<std::unique_ptr<OutgoingCall>> take_rest();
  const std::deque<Task>& tasks() const { return tasks_; }

 private:
  std::deque<Task>::iterator find(uint64_t call_id);

  std::deque<Task> tasks_;  // in the order in which they were sent, and begin
  base::Duration expected_{};
  base::TimePoint moved_{};  // when it last began or ended something
  bool halted_ = false;
};

}  // namespace rayo::worker
