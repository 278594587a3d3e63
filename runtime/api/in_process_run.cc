// The part of InProcess that runs user code: pool threads, actors' threads, and waiting.
#include <algorithm>
#include <exception>

#include "runtime/api/in_process.h"
#include "runtime/base/invoke.h"
#include "runtime/base/text.h"

namespace rayo::api {

using internal::ObjectHandle;
using internal::ValueView;

namespace {

constexpr size_t kMaxPool = 256;  // threads; tasks that wait for tasks take one each

thread_local Runner* t_runner = nullptr;

class RunnerScope {
 public:
  explicit RunnerScope(Runner& runner) : outer_(std::exchange(t_runner, &runner)) {}
  ~RunnerScope() { t_runner = outer_; }
  RunnerScope(const RunnerScope&) = delete;
  RunnerScope& operator=(const RunnerScope&) = delete;

 private:
  Runner* outer_;
};

// Killed or shut down: what it waits for is of no use any more.
bool stopped(const Runner& runner) { return runner.stopped || (runner.actor != nullptr && runner.actor->death); }

// The fibers of the actor one of which runs here.
worker::CallFibers* fibers_here() {
  worker::CallFibers* fibers =
      t_runner != nullptr && t_runner->actor != nullptr ? t_runner->actor->fibers.get() : nullptr;
  return fibers != nullptr && fibers->inside() ? fibers : nullptr;
}

// The mutex stays locked; whoever goes on takes it up.
void hand_over(std::unique_lock<std::mutex>& lock) {
  lock = std::unique_lock<std::mutex>(*lock.release(), std::defer_lock);
}

bool runs_task() { return t_runner != nullptr && t_runner->actor == nullptr; }

}  // namespace

// A task that waits lends its place (invariant 4). Made and ended with the lock held.
class InProcess::Waiting {
 public:
  Waiting(InProcess& world, const Object* object) : world_(world), lends_(runs_task()) {
    if (t_runner != nullptr) t_runner->blocked_on = object;
    if (!lends_) return;
    --world_.active_;
    if (!world_.tasks_.empty()) world_.want_thread();
  }
  ~Waiting() {
    if (t_runner != nullptr) t_runner->blocked_on = nullptr;
    if (lends_) ++world_.active_;
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  InProcess& world_;
  const bool lends_;
};

// A thread that needs objects although it gives the lock up. Made and ended with the lock held.
class InProcess::Inside {
 public:
  explicit Inside(InProcess& world) : world_(world) { ++world_.inside_; }
  ~Inside() {
    if (--world_.inside_ == 0 && !world_.running_) world_.notify();
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  InProcess& world_;
};

bool InProcess::in_user_code() { return t_runner != nullptr; }

std::optional<ErrorRecord> InProcess::run(Lock& lock, Call& call, Runner& runner) {
  std::vector<ValueView> refs;
  for (const Object* ref : call.refs) refs.push_back({ref->value, ref->error ? &*ref->error : nullptr});
  Object outcome;
  std::vector<ObjectHandle> inner;
  internal::Invocation invocation{.self = call.actor == nullptr ? nullptr : call.actor->self,
                                  .arguments = call.arguments,
                                  .refs = refs,
                                  .result = &outcome.value,
                                  .result_refs = &inner,
                                  .result_actors = &outcome.inner_actors,
                                  .made_by = call.actor == nullptr ? nullptr : call.actor->constructor};
  call.runner = &runner;
  runner.cancelled = false;
  lock.unlock();
  std::optional<ErrorRecord> error;
  {
    RunnerScope scope(runner);
    error = base::invoke(*call.function, invocation);
  }
  lock.lock();
  call.runner = nullptr;
  if (call.result == nullptr) {
    call.actor->self = invocation.constructed;
    if (invocation.made_by != nullptr) call.actor->constructor = invocation.made_by;
    return error;
  }
  for (const ObjectHandle& ref : inner) outcome.inner.push_back(static_cast<Object*>(ref.slot));
  outcome.error = std::move(error);
  if (running_) complete(call.result, std::move(outcome));
  return std::nullopt;
}

// ---- tasks ----

void InProcess::queue_task(std::unique_ptr<Call> call) {
  tasks_.push_back(std::move(call));
  want_thread();
}

void InProcess::want_thread() {
  if (active_ >= limit_) return;
  if (idle_ >= tasks_.size() || pool_.size() >= kMaxPool) return task_wake_.notify_one();
  pool_.emplace_back([this] { serve_tasks(); });
}

void InProcess::run_task(Lock& lock, std::unique_ptr<Call> call) {
  Runner runner{.name = call->function->name};
  ++active_;
  run(lock, *call, runner);
  --active_;
  if (!running_) return;
  end_call(std::move(call));
  if (!tasks_.empty()) want_thread();
}

void InProcess::serve_tasks() {
  Lock lock(lock_);
  while (running_) {
    if (tasks_.empty() || active_ >= limit_) {
      ++idle_;
      task_wake_.wait(lock);
      --idle_;
      continue;
    }
    std::unique_ptr<Call> call = std::move(tasks_.front());
    tasks_.pop_front();
    run_task(lock, std::move(call));
  }
}

void InProcess::help(Lock& lock, const Object* object) {
  auto queued =
      std::find_if(tasks_.begin(), tasks_.end(), [object](const auto& call) { return call.get() == object->producer; });
  if (queued == tasks_.end()) return;
  std::unique_ptr<Call> call = std::move(*queued);
  tasks_.erase(queued);
  Waiting waiting(*this, object);
  run_task(lock, std::move(call));
}

// ---- actors ----

void InProcess::serve_actor(Actor& actor) {
  Lock lock(lock_);
  RunnerScope scope(actor.runner);
  construct(lock, actor);
  while (true) {
    const auto over = [&actor] { return actor.count == 0 && actor.mailbox.empty() && actor.current.empty(); };
    if (actor.fibers) {
      serve_in_fiber(lock, actor);
    } else {
      actor.wake.wait(lock, [&] { return actor.death || may_start(actor) || over(); });
    }
    if (actor.death && actor.current.empty()) break;
    if (over()) {
      end_actor(actor, {.kind = ErrorKind::kActorDied,
                        .text = base::cat("actor ", actor.runner.name, " is dead: its last handle was dropped")});
      break;
    }
    if (actor.fibers || actor.death) continue;
    std::unique_ptr<Call> call = std::move(actor.mailbox.front());
    actor.mailbox.pop_front();
    serve_one(lock, actor, std::move(call), actor.runner);
  }
  if (void* self = std::exchange(actor.self, nullptr)) {
    lock.unlock();
    actor.constructor->destroy(self);
    lock.lock();
  }
  finished_.push_back(std::move(actor.thread));
  notify();
  if (running_ && actor.count == 0) actors_.erase(ActorId(actor.id));
}

bool InProcess::may_start(const Actor& actor) const {
  return !actor.mailbox.empty() && actor.current.size() < actor.most_concurrent;
}

void InProcess::serve_one(Lock& lock, Actor& actor, std::unique_ptr<Call> call, Runner& runner) {
  actor.current.push_back(call.get());
  if (await_refs(lock, *call)) run(lock, *call, runner);
  std::erase(actor.current, call.get());
  if (running_) end_call(std::move(call));
}

// One step: waits for something to do, then begins a call or goes on with those whose wait is over. A fiber that leaves
// the thread leaves it the lock, which is the mutex and not the object that held it: each takes it up in its own.
void InProcess::serve_in_fiber(Lock& lock, Actor& actor) {
  const auto take_up = [this, &lock, &actor] {
    if (!lock.owns_lock()) lock = Lock(lock_, std::adopt_lock);
    t_runner = &actor.runner;
  };
  const auto due = [&actor] { return actor.fibers->any_due(base::system_clock().now()); };
  while (!due() && !(may_start(actor) && !actor.death)) {
    if (actor.current.empty() && (actor.death || actor.count == 0)) return;
    const auto until = actor.fibers->next_deadline();
    if (until == base::kForever)
      changed_.wait(lock);
    else
      changed_.wait_for(lock, until - base::system_clock().now());
  }
  if (due()) {
    hand_over(lock);
    actor.fibers->resume_one();
    return take_up();
  }
  std::unique_ptr<Call> call = std::move(actor.mailbox.front());
  actor.mailbox.pop_front();
  actor.fibers->start([this, &lock, &actor, next = call.release()] {
    Runner runner{.actor = &actor, .name = actor.runner.name};
    const RunnerScope scope(runner);
    serve_one(lock, actor, std::unique_ptr<Call>(next), runner);
  });
  take_up();
}

void InProcess::wake(Actor& actor) {
  actor.wake.notify_one();
  if (actor.fibers) notify();
}

void InProcess::pause(Lock& lock, const Until& until) {
  worker::CallFibers* fibers = fibers_here();
  if (fibers == nullptr) {
    const Inside inside(*this);
    if (until)
      changed_.wait_until(lock, *until);
    else
      changed_.wait(lock);
    return;
  }
  Runner* runner = t_runner;
  hand_over(lock);
  // Looked at again at each change: what it waits for is its caller's to know.
  const uint64_t seen = changes_;
  fibers->wait([this, seen] { return changes_ != seen; },
               until ? base::system_clock().now() + (*until - internal::Clock::now()) : base::kForever);
  lock = Lock(lock_, std::adopt_lock);
  t_runner = runner;
}

void InProcess::construct(Lock& lock, Actor& actor) {
  Call& call = *actor.construction;
  std::optional<ErrorRecord> error;
  try {
    for (Object* ref : call.refs) wait_on(lock, ref, {});
    if (!actor.death) error = run(lock, call, actor.runner);
  } catch (const Error& stopped) {
    error = stopped.record();
  }
  if (error) {
    DeathRecord death{.at = std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now()),
                      .node = context_.node,
                      .kind = DeathKind::kStartFailed,
                      .text = base::cat("its constructor failed: ", error->text)};
    error->kind = ErrorKind::kActorDied;
    error->text = base::cat("actor ", actor.runner.name, " is dead: ", death.text);
    error->death = std::move(death);
    end_actor(actor, *std::move(error));
  }
  if (running_) end_call(std::move(actor.construction));
}

bool InProcess::await_refs(Lock& lock, Call& call) {
  try {
    for (Object* ref : call.refs) wait_on(lock, ref, {});
    return !call.result->ready;
  } catch (const Error& error) {  // a deadlock, or the actor was ended
    fail(call.result, error.record());
    return false;
  }
}

void InProcess::end_actor(Actor& actor, ErrorRecord death) {
  if (actor.death) return;
  actor.death = std::move(death);
  actor.runner.stopped = true;
  end_streams_of(actor);
  if (!actor.name.empty()) names_.erase({actor.name_space, actor.name});
  for (Call* call : actor.current) fail(call->result, *actor.death);
  for (std::unique_ptr<Call>& call : std::exchange(actor.mailbox, {})) {
    fail(call->result, *actor.death);
    if (running_) end_call(std::move(call));
  }
  wake(actor);
  notify();
}

void InProcess::join_finished(Lock& lock) {
  std::vector<std::thread> finished = std::move(finished_);
  finished_.clear();
  lock.unlock();
  for (std::thread& thread : finished) thread.join();
  lock.lock();
}

// ---- waiting ----

void InProcess::check_deadlock(const Object* object) const {
  if (t_runner == nullptr) return;
  std::string path = t_runner->name;
  for (const Object* at = object; at != nullptr && !at->ready && at->producer != nullptr;) {
    const Call& call = *at->producer;
    const bool own_runner = call.actor == nullptr || call.actor->fibers;
    const Runner* runner = own_runner ? call.runner : &call.actor->runner;
    path = base::cat(path, " waits for ", runner == nullptr ? std::string(call.function->name) : runner->name);
    if (runner == t_runner) {
      throw Deadlock({.kind = ErrorKind::kDeadlock,
                      .text = base::cat("get would wait for ever: ", path),
                      .next_step = "return the ObjectRef instead of waiting for it, or call the method directly"});
    }
    if (runner != nullptr) {
      at = runner->blocked_on;
    } else {
      auto pending = std::find_if(call.refs.begin(), call.refs.end(), [](const Object* ref) { return !ref->ready; });
      at = pending == call.refs.end() ? nullptr : *pending;
    }
  }
}

bool InProcess::wait_on(Lock& lock, Object* object, const Until& until) {
  if (object->ready) return true;
  check_deadlock(object);
  if (!until && fibers_here() == nullptr) help(lock, object);
  Waiting waiting(*this, object);
  while (!object->ready) {
    if (t_runner != nullptr && stopped(*t_runner)) {
      throw Cancelled({.kind = ErrorKind::kCancelled, .text = base::cat(t_runner->name, " was ended while it waited")});
    }
    check_running();
    if (until && internal::Clock::now() >= *until) return false;
    pause(lock, until);
  }
  return true;
}

// Overflow-safe: more than a century is for ever.
InProcess::Until InProcess::until(std::chrono::nanoseconds timeout) {
  if (timeout.count() < 0 || timeout > std::chrono::hours(24 * 365 * 100)) return std::nullopt;
  return internal::Clock::now() + timeout;
}

bool InProcess::wait_for(Lock& lock, const std::function<bool()>& ready, const Until& until) {
  if (ready()) return true;
  Waiting waiting(*this, nullptr);
  while (!ready()) {
    if (t_runner != nullptr && stopped(*t_runner))
      throw Cancelled({.kind = ErrorKind::kCancelled, .text = base::cat(t_runner->name, " was ended while it waited")});
    check_running();
    if (until && internal::Clock::now() >= *until) return false;
    pause(lock, until);
  }
  return true;
}

bool InProcess::wait_for(bool (*ready)(void* context), void* context, std::chrono::nanoseconds timeout) {
  Lock lock(lock_);
  check_running();
  return wait_for(
      lock, [&] { return ready(context); }, until(timeout));
}

bool InProcess::get(const ObjectHandle& handle, std::chrono::nanoseconds timeout, internal::ValueReader read,
                    void* context) {
  Object* object = static_cast<Object*>(handle.slot);
  Lock lock(lock_);
  check_running();
  const Inside inside(*this);
  if (!wait_on(lock, object, until(timeout))) return false;
  ++object->count;  // the reader looks at it without the lock
  lock.unlock();
  const auto unpin = [&](InProcess* world) {
    lock.lock();
    if (world->running_) world->drop(object);
  };
  std::unique_ptr<InProcess, decltype(unpin)> pin(this, unpin);
  read(context, {object->value, object->error ? &*object->error : nullptr});
  return true;
}

bool InProcess::ready(const ObjectHandle& object) {
  Lock lock(lock_);
  check_running();
  return static_cast<Object*>(object.slot)->ready;
}

size_t InProcess::wait(std::span<const ObjectHandle> objects, size_t count, std::chrono::nanoseconds timeout,
                       std::vector<bool>& ready) {
  const auto end = until(timeout);
  Lock lock(lock_);
  check_running();
  Waiting waiting(*this, nullptr);
  while (true) {
    size_t found = 0;
    for (size_t i = 0; i < objects.size(); ++i) {
      ready[i] = static_cast<Object*>(objects[i].slot)->ready;
      found += ready[i];
    }
    if (found >= count || (end && internal::Clock::now() >= *end)) return found;
    check_running();
    if (t_runner != nullptr && stopped(*t_runner)) return found;
    pause(lock, end);
  }
}

void InProcess::run_blocking(void (*run)(void* context), void* context) {
  Lock lock(lock_);
  if (fibers_here() == nullptr) {
    const Waiting lending(*this, nullptr);
    lock.unlock();
    struct LockAgain {
      Lock& lock;
      ~LockAgain() { lock.lock(); }
    } again{lock};
    return run(context);
  }
  bool done = false;
  std::exception_ptr thrown;
  std::thread helper([&] {
    try {
      run(context);
    } catch (...) {
      thrown = std::current_exception();
    }
    const Lock told(lock_);
    done = true;
    notify();
  });
  while (!done) pause(lock, {});
  lock.unlock();
  helper.join();
  if (thrown) std::rethrow_exception(thrown);
}

bool InProcess::is_cancelled() {
  const Lock lock(lock_);
  return t_runner != nullptr && (t_runner->cancelled || stopped(*t_runner));
}

ContextRecord InProcess::context() {
  ContextRecord context = context_;
  if (t_runner != nullptr && t_runner->actor != nullptr) {
    context.actor = t_runner->actor->id;
    context.incarnation = 1;
    context.actor_name = t_runner->actor->name;
  }
  return context;
}

}  // namespace rayo::api
