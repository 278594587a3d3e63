#include "runtime/base/loop/fiber_scheduler.h"

#include <thread>

#include "runtime/base/log.h"

namespace rayo::base {
namespace {

constexpr uint32_t kDispatcherEvery = 64;

thread_local FiberScheduler* scheduler_of_thread = nullptr;

FiberRecord& record_of(boost::fibers::context* context) {
  if (context->get_properties() == nullptr) context->set_properties(new FiberRecord(context));
  return *static_cast<FiberRecord*>(context->get_properties());
}

}  // namespace

FiberRecord* current_record() {
  if (scheduler_of_thread == nullptr) return nullptr;
  auto* record = static_cast<FiberRecord*>(boost::fibers::context::active()->get_properties());
  return record != nullptr && record->of_loop ? record : nullptr;
}

FiberScheduler& FiberScheduler::of_this_thread() {
  if (scheduler_of_thread == nullptr) {
    auto* scheduler = new FiberScheduler;
    scheduler->running_ = boost::fibers::context::active();
    scheduler->restart_turn();
    boost::fibers::context::active()->get_scheduler()->set_algo(scheduler);  // owns it until the thread ends
    scheduler_of_thread = scheduler;
  }
  return *scheduler_of_thread;
}

void FiberScheduler::switch_exceptions_to(boost::fibers::context* next) noexcept {
  if (running_ == next) return;
  record_of(running_).exceptions.save();
  record_of(next).exceptions.restore();
  running_ = next;
}

void FiberScheduler::end_turn(boost::fibers::context* leaving) noexcept {
  TimePoint now = system_clock().now();
  if (now - turn_began_ > kSlowTurn) {
    slow_turns_.fetch_add(1, std::memory_order_relaxed);
    log().debug("fiber '{}' held the loop for {:.1f} ms", record_of(leaving).name, seconds(now - turn_began_) * 1e3);
  }
  turn_began_ = now;
}

void FiberScheduler::awakened(boost::fibers::context* context, FiberRecord&) noexcept {
  switch_exceptions_to(boost::fibers::context::active());  // a switch that went past pick_next: launch::dispatch
  if (context->is_context(boost::fibers::type::dispatcher_context)) {
    dispatcher_ = context;
  } else {
    context->ready_link(ready_);
  }
}

boost::fibers::context* FiberScheduler::pick_next() noexcept {
  auto* active = boost::fibers::context::active();
  switch_exceptions_to(active);
  end_turn(active);
  boost::fibers::context* next = nullptr;
  if (dispatcher_ != nullptr && (ready_.empty() || dispatcher_due_ || ++switches_ % kDispatcherEvery == 0)) {
    dispatcher_due_ = false;
    next = std::exchange(dispatcher_, nullptr);
  } else if (!ready_.empty()) {
    next = &ready_.front();
    ready_.pop_front();
  }
  if (next != nullptr) switch_exceptions_to(next);
  return next;
}

void FiberScheduler::suspend_until(const std::chrono::steady_clock::time_point&) noexcept {
  // Only where the main fiber itself is suspended, which the loop never does: a thread that ends with fibers
  // alive.
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace rayo::base
