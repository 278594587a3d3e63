#include "runtime/base/loop/event.h"

#include "runtime/base/check.h"
#include "runtime/base/loop/loop_state.h"

namespace rayo::base {
namespace {
constexpr int kIgnoredCancels = 1'000'000;  // waits of a cancelled fiber: by then it spins for ever
}

// ---- waiting ----

void Waiter::wake(bool was_notified) {
  notified = was_notified;
  (previous != nullptr ? previous->next : list->first_) = next;
  (next != nullptr ? next->previous : list->last_) = previous;
  list = nullptr;
  record->waiting = nullptr;
  boost::fibers::context::active()->schedule(context);
}

WaitList::~WaitList() { RAYO_CHECK(first_ == nullptr, "what is waited for outlives its waiters"); }

bool WaitList::wait(TimePoint deadline) {
  FiberRecord* record = current_record();
  RAYO_CHECK(record != nullptr, "waits are made in a fiber of a loop");
  if (record->ends_waits()) {
    RAYO_CHECK(++record->ignored_cancels < kIgnoredCancels, "a cancelled fiber ends");
    yield_fiber();  // a fiber that asks again and again leaves the others their turns
    return false;
  }
  Loop::State& loop = *current_loop()->state_;
  if (deadline != kForever && deadline <= loop.owner.now()) return false;
  Waiter waiter;
  waiter.record = record;
  waiter.context = boost::fibers::context::active();
  waiter.list = this;
  waiter.previous = last_;
  (last_ != nullptr ? last_->next : first_) = &waiter;
  last_ = &waiter;
  record->waiting = &waiter;
  if (deadline != kForever) loop.add_due(deadline, waiter);
  waiter.context->suspend();
  loop.remove_due(waiter);
  return waiter.notified;
}

bool WaitList::notify_one() {
  if (first_ == nullptr) return false;
  first_->wake(true);
  return true;
}

void WaitList::notify_all() {
  while (notify_one()) {
  }
}

void cancel_fiber(FiberRecord& record) {
  record.cancelled = true;
  if (record.waiting != nullptr && record.shields == 0) record.waiting->wake(false);
}

// ---- of the running fiber ----

bool sleep_until(TimePoint deadline) {
  WaitList nothing;
  nothing.wait(deadline);
  return !fiber_cancelled();
}

bool sleep_for(Duration span) { return sleep_until(current_loop()->deadline(span)); }

void yield_fiber() { boost::this_fiber::yield(); }

bool fiber_cancelled() {
  FiberRecord* record = current_record();
  return record != nullptr && record->ends_waits();
}

Shield::Shield() {
  FiberRecord* record = current_record();
  RAYO_CHECK(record != nullptr, "a shield stands in a fiber of a loop");
  ++record->shields;
}
Shield::~Shield() { --current_record()->shields; }

// ---- groups ----

TaskGroup::TaskGroup() : state_(std::make_shared<State>()) {}

TaskGroup::~TaskGroup() {
  cancel();
  if (state_->members.empty()) return;
  Shield shield;
  join();
}

void TaskGroup::spawn(std::string_view name, Task task) {
  Loop* loop = current_loop();
  RAYO_CHECK(loop != nullptr, "a group's fibers are spawned on the loop's thread");
  loop->state_->start_fiber(name, std::move(task), state_);
}

void TaskGroup::cancel() {
  state_->cancelled = true;
  for (FiberRecord* record : state_->members) cancel_fiber(*record);
}

bool TaskGroup::join(TimePoint deadline) {
  while (!state_->members.empty())
    if (!state_->emptied.wait(deadline)) return state_->members.empty();
  return true;
}

int TaskGroup::size() const { return static_cast<int>(state_->members.size()); }
bool TaskGroup::cancelled() const { return state_->cancelled; }

}  // namespace rayo::base
