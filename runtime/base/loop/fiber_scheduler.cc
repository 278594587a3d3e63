#include "runtime/base/loop/fiber_scheduler.h"

#include <cstring>
#include <cxxabi.h>
#include <sys/mman.h>
#include <thread>

#include "runtime/base/check.h"
#include "runtime/base/log.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace rayo::base {
namespace {

constexpr Duration kSlowTurn = std::chrono::milliseconds(10);  // design.md: a longer turn of the loop is a bug
constexpr uint32_t kDispatcherEvery = 64;
constexpr size_t kStackBytes = size_t{256} << 10;
constexpr size_t kGuardBytes = 4096;
constexpr size_t kStacksKept = 64;

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
  void* globals = abi::__cxa_get_globals();
  auto& saved = record_of(running_).exceptions;
  std::memcpy(saved.data(), globals, saved.size());
  std::memcpy(globals, record_of(next).exceptions.data(), saved.size());
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

StackPool::~StackPool() {
  for (auto& stack : free_) ::munmap(static_cast<char*>(stack.sp) - stack.size - kGuardBytes, stack.size + kGuardBytes);
}

boost::context::stack_context StackPool::take() {
  boost::context::stack_context stack;
  if (!free_.empty()) {
    stack = free_.back();
    free_.pop_back();
  } else {
    void* memory = ::mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    RAYO_CHECK(::mprotect(memory, kGuardBytes, PROT_NONE) == 0, "the page is ours");
    stack.size = kStackBytes;
    stack.sp = static_cast<char*>(memory) + kGuardBytes + kStackBytes;
  }
#if defined(__SANITIZE_ADDRESS__)
  // An ended fiber leaves its last frames' red zones behind.
  __asan_unpoison_memory_region(static_cast<char*>(stack.sp) - stack.size, stack.size);
#endif
  return stack;
}

void StackPool::give_back(boost::context::stack_context& stack) {
  if (free_.size() < kStacksKept) {
    free_.push_back(stack);
  } else {
    ::munmap(static_cast<char*>(stack.sp) - stack.size - kGuardBytes, stack.size + kGuardBytes);
  }
}

}  // namespace rayo::base
