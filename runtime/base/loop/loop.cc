#include "runtime/base/loop/loop.h"

#include "runtime/base/check.h"
#include "runtime/base/log.h"
#include "runtime/base/loop/loop_state.h"
#include "runtime/base/text.h"

namespace rayo::base {
namespace {

constexpr Duration kStopLimit = std::chrono::seconds(10);  // for a fiber to notice that it is cancelled
constexpr Duration kPollEvery = std::chrono::microseconds(20);
constexpr int kHandlersPerPoll = 64;

thread_local Loop* loop_of_thread = nullptr;

// A fiber's stack, from the pool of its thread.
struct PooledStack {
  using traits_type = boost::context::stack_traits;
  StackPool* pool;
  boost::context::stack_context allocate() {
    const Stack stack = pool->take();
    boost::context::stack_context context;
    context.sp = stack.top;
    context.size = stack.size;
    return context;
  }
  void deallocate(boost::context::stack_context& context) { pool->give_back({context.sp, context.size}); }
};

}  // namespace

// ---- state ----

Loop::State::~State() {
  std::vector<std::shared_ptr<Timer::State>> last;
  for (Timer::State* timer : timers) {
    timer->loop = nullptr;
    timer->entry.reset();
    last.push_back(std::move(timer->self));
  }
}

void Loop::State::link(FiberRecord& record) {
  record.next = fibers;
  if (fibers != nullptr) fibers->previous = &record;
  fibers = &record;
  ++fiber_count;
}

void Loop::State::unlink(FiberRecord& record) {
  (record.previous != nullptr ? record.previous->next : fibers) = record.next;
  if (record.next != nullptr) record.next->previous = record.previous;
  --fiber_count;
}

void Loop::State::start_fiber(std::string_view name, Task task, std::shared_ptr<TaskGroup::State> group) {
  auto* record = new FiberRecord(nullptr);  // the context owns it
  record->name = name;
  record->of_loop = true;
  record->cancelled = stopping || (group && group->cancelled);
  if (group) group->members.insert(record);
  record->group = std::move(group);
  link(*record);
  boost::fibers::fiber_properties* properties = record;
  boost::fibers::fiber(boost::fibers::launch::post, properties, std::allocator_arg, PooledStack{&scheduler->stacks()},
                       [this, record, task = std::move(task)]() mutable { run_fiber(*record, std::move(task)); })
      .detach();
}

void Loop::State::run_fiber(FiberRecord& record, Task task) {
  task();
  task = nullptr;  // what it holds goes while the fiber still counts as alive
  unlink(record);
  if (record.group) {
    record.group->members.erase(&record);
    if (record.group->members.empty()) record.group->emptied.notify_all();
    record.group.reset();
  }
  scheduler->fiber_ended();
}

void Loop::State::begin_stop() {
  stopping = true;
  stop_limit = owner.deadline(kStopLimit);
  for (FiberRecord* record = fibers; record != nullptr; record = record->next) cancel_fiber(*record);
  arm_alarm(stop_limit);
}

void Loop::State::check_stop_limit() const {
  if (owner.now() < stop_limit) return;
  std::string names;
  for (FiberRecord* record = fibers; record != nullptr; record = record->next) names += cat(" '", record->name, "'");
  log().at(LogLevel::kCritical, "fibers that do not end after stop():{}", names);
  RAYO_CHECK(false, "every fiber ends within 10 s of its loop's stop");
}

// Runs what is ready: handlers of the io_context on this (the main) fiber, then every fiber that is ready.
void Loop::State::turn() {
  if (scheduler->others_ready()) {
    for (int handlers = 0; handlers < kHandlersPerPoll && io.poll_one() > 0; ++handlers) {
    }
    TimePoint next_poll = owner.now() + kPollEvery;
    do {
      boost::this_fiber::yield();
    } while (scheduler->others_ready() && owner.now() < next_poll);
    return;
  }
  io.run_one();
  scheduler->restart_turn();
}

// ---- due times ----

void Loop::State::add_due(TimePoint at, Due& due) {
  due.entry = due_times.emplace(at, &due);
  arm_alarm(at);
}

void Loop::State::remove_due(Due& due) {
  if (due.entry) due_times.erase(*due.entry);
  due.entry.reset();
}

// The alarm may ring early (what it was set for is gone): fire_due sets it again.
void Loop::State::arm_alarm(TimePoint at) {
  if (at >= alarm_at) return;
  alarm_at = at;
  Duration in = std::clamp<Duration>(at - owner.now(), Duration::zero(), std::chrono::hours(24));
  alarm.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(in));
  alarm.async_wait([this](const boost::system::error_code& error) {
    if (error) return;  // set anew
    alarm_at = kForever;
    fire_due();
  });
}

void Loop::State::fire_due() {
  TimePoint now = owner.now();
  while (!due_times.empty() && due_times.begin()->first <= now) {
    Due& due = *due_times.begin()->second;
    remove_due(due);
    due.fire();
  }
  if (!due_times.empty()) arm_alarm(due_times.begin()->first);
  if (stopping) arm_alarm(stop_limit);
}

// ---- timers ----

Timer& Timer::operator=(Timer&& other) noexcept {
  if (this != &other) {
    cancel();
    state_ = std::move(other.state_);
  }
  return *this;
}

void Timer::cancel() {
  if (auto state = std::exchange(state_, nullptr)) state->end();
}

bool Timer::pending() const { return state_ && state_->loop != nullptr; }

void Timer::State::arm(Duration in) {
  loop->add_due(loop->owner.deadline(in), *this);
  self = shared_from_this();
}

void Timer::State::end() {
  auto last = std::move(self);
  if (loop == nullptr) return;
  loop->remove_due(*this);
  loop->timers.erase(this);
  loop = nullptr;
}

void Timer::State::fire() {
  if (loop->stopping) return end();
  loop->start_fiber(
      "timer",
      [timer = shared_from_this()] {
        if (timer->loop == nullptr) return;
        if (timer->period == Duration::zero()) timer->end();  // fired: its task may find it so, and set the next
        timer->task();
        if (timer->loop == nullptr) return;
        if (timer->loop->stopping) return timer->end();
        timer->arm(timer->period);
      },
      nullptr);
}

// ---- the loop ----

Loop::Loop() : state_(std::make_unique<State>(*this)) {}
Loop::~Loop() {
  RAYO_CHECK(state_->fiber_count == 0, "run() returns after the last fiber");
  while (state_->handing_over.load() > 0) std::this_thread::yield();
}

void Loop::run() {
  RAYO_CHECK(loop_of_thread == nullptr, "one loop runs on a thread at a time");
  loop_of_thread = this;
  state_->thread = std::this_thread::get_id();
  state_->scheduler = &FiberScheduler::of_this_thread();
  state_->scheduler->restart_turn();
  auto work = boost::asio::make_work_guard(state_->io);
  for (auto& [name, task] : std::exchange(state_->before_run, {})) spawn(name, std::move(task));
  while (!state_->stopping || state_->fiber_count > 0) {
    if (!state_->stopping && state_->stop_asked.load(std::memory_order_acquire)) state_->begin_stop();
    if (state_->stopping) state_->check_stop_limit();
    if (!state_->stopping || state_->fiber_count > 0) state_->turn();
  }
  loop_of_thread = nullptr;
}

void Loop::stop() {
  state_->stop_asked.store(true, std::memory_order_release);
  state_->hand_over([] {});
}

bool Loop::stopping() const { return state_->stop_asked.load(std::memory_order_acquire); }

void Loop::spawn(std::string_view name, Task task) {
  if (state_->scheduler == nullptr) {
    state_->before_run.emplace_back(name, std::move(task));
    return;
  }
  RAYO_CHECK(on_loop_thread(), "fibers are spawned on the loop's thread; post() from elsewhere");
  state_->start_fiber(name, std::move(task), nullptr);
}

void Loop::post(Task task) {
  state_->hand_over(
      [this, task = std::move(task)]() mutable { state_->start_fiber("posted", std::move(task), nullptr); });
}

void Loop::defer(Task task) {
  state_->hand_over([this, task = std::move(task)]() mutable {
    TimePoint began = now();
    task();
    if (now() - began > kSlowTurn) state_->scheduler->count_slow_turn();
  });
}

Timer Loop::after(Duration span, Task task) {
  auto timer = std::make_shared<Timer::State>();
  timer->loop = state_.get();
  timer->task = std::move(task);
  state_->timers.insert(timer.get());
  timer->arm(span);
  return Timer(std::move(timer));
}

Timer Loop::every(Duration span, Task task) {
  Timer timer = after(span, std::move(task));
  timer.state_->period = span;
  return timer;
}

bool Loop::on_loop_thread() const { return loop_of_thread == this; }
uint64_t Loop::slow_turns() const { return state_->scheduler == nullptr ? 0 : state_->scheduler->slow_turns(); }
int Loop::fibers() const { return state_->fiber_count; }
boost::asio::io_context& Loop::io() { return state_->io; }

Loop* current_loop() { return loop_of_thread; }

void run_in_loop(Task task) {
  Loop loop;
  loop.spawn("main", [&] {
    task();
    loop.stop();
  });
  loop.run();
}

}  // namespace rayo::base
