#include "runtime/api/in_process.h"

#include <algorithm>
#include <unistd.h>

#include "runtime/base/ids.h"
#include "runtime/base/text.h"
#include "runtime/worker/demand.h"
#include "runtime/worker/failure.h"

namespace rayo::api {

using internal::ActorRecord;
using internal::Bytes;
using internal::CallRequest;
using internal::ObjectHandle;

namespace {

Object* object_of(const ObjectHandle& handle) { return static_cast<Object*>(handle.slot); }

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

ContextRecord make_context(const InitOptions& options) {
  ContextRecord context;
  context.cluster = base::random_id<ClusterId>();
  context.cluster_name = "in_process";
  context.node = base::random_id<NodeId>();
  context.process = base::random_id<ProcessId>();
  context.job = base::random_id<JobId>();
  context.name_space = options.name_space;
  context.in_process = true;
  return context;
}

size_t cpu_limit(const InitOptions& options) {
  const double cpus = options.num_cpus.value_or(std::thread::hardware_concurrency());
  return std::max<size_t>(1, static_cast<size_t>(cpus));
}

}  // namespace

InProcess::InProcess(const InitOptions& options) : context_(make_context(options)), limit_(cpu_limit(options)) {}

InProcess::~InProcess() { shutdown(); }

void InProcess::shutdown(bool process_ends) {
  Lock lock(lock_);
  if (!running_) return;
  if (in_user_code()) {
    if (process_ends) return;
    throw Invalid({.kind = ErrorKind::kInvalid,
                   .text = "rayo::shutdown() was called inside of an actor or task, whose end it waits for",
                   .next_step = "call it from the thread that called rayo::init"});
  }
  running_ = false;
  const ErrorRecord ended{.kind = ErrorKind::kUnavailable,
                          .text = "the session has ended: rayo::shutdown() was called"};
  for (auto& [id, actor] : actors_) {
    ErrorRecord death = ended;
    end_actor(*actor, std::move(death));
  }
  while (!tasks_.empty()) {
    std::unique_ptr<Call> task = std::move(tasks_.front());
    tasks_.pop_front();
    fail(task->result, ended);
  }
  for (auto& [key, task] : waiting_tasks_) fail(task->result, ended);
  notify();
  task_wake_.notify_all();
  changed_.wait(lock, [this] {
    return std::none_of(actors_.begin(), actors_.end(),
                        [](const auto& entry) { return entry.second->thread.joinable(); });
  });
  join_finished(lock);
  std::vector<std::thread> pool = std::move(pool_);
  lock.unlock();
  for (std::thread& thread : pool) thread.join();
  lock.lock();
  changed_.wait(lock, [this] { return inside_ == 0; });
  waiting_tasks_.clear();
  objects_.clear();
  streams_.clear();
  actors_.clear();
  names_.clear();
}

void InProcess::check_running() const {
  if (running_) return;
  throw Unavailable({.kind = ErrorKind::kUnavailable,
                     .text = "the session has ended: rayo::shutdown() was called",
                     .next_step = "call rayo::init again"});
}

// ---- objects ----

Object* InProcess::new_object() {
  const ObjectId id{base::short_id(context_.node), base::short_id(context_.process), ++next_object_};
  auto object = std::make_unique<Object>();
  object->id = id;
  object->count = 1;
  return objects_.emplace(id, std::move(object)).first->second.get();
}

void InProcess::drop(Object* object) {
  std::vector<Object*> dropped{object};  // a chain of values may be long: no recursion
  while (!dropped.empty()) {
    Object* next = dropped.back();
    dropped.pop_back();
    if (--next->count > 0) continue;
    dropped.insert(dropped.end(), next->inner.begin(), next->inner.end());
    for (const ActorId& actor : next->inner_actors) drop_actor(actor);
    if (next->stream != nullptr) marker_gone(*next->stream);
    const ObjectId id = next->id;
    objects_.erase(id);
  }
}

void InProcess::complete(Object* object, Object&& outcome) {
  if (object->ready) {  // killed meanwhile: the late result goes
    for (Object* inner : outcome.inner) drop(inner);
    for (const ActorId& actor : outcome.inner_actors) drop_actor(actor);
    return;
  }
  object->value = std::move(outcome.value);
  object->error = std::move(outcome.error);
  object->inner = std::move(outcome.inner);
  object->inner_actors = std::move(outcome.inner_actors);
  object->ready = true;
  object->producer = nullptr;
  for (Call* dependent : std::exchange(object->dependents, {})) {
    if (--dependent->waiting > 0) continue;
    auto node = waiting_tasks_.extract(dependent);
    if (running_) queue_task(std::move(node.mapped()));
  }
  notify();
  for (internal::ReadyNotice* notice : std::exchange(object->notices, {})) {
    notice->ready(*notice);
    drop(object);
  }
}

void InProcess::fail(Object* object, ErrorRecord error) {
  Object outcome;
  outcome.error = std::move(error);
  complete(object, std::move(outcome));
}

ObjectHandle InProcess::put(std::span<const Bytes> parts, std::span<const ObjectHandle> inner_refs,
                            std::span<const ActorId> inner_actors) {
  Lock lock(lock_);
  check_running();
  Object* object = new_object();
  for (const Bytes& part : parts) object->value.insert(object->value.end(), part.begin(), part.end());
  for (const ObjectHandle& inner : inner_refs) {
    ++object_of(inner)->count;
    object->inner.push_back(object_of(inner));
  }
  for (const ActorId& actor : inner_actors) {
    ++actor_of(actor).count;
    object->inner_actors.push_back(actor);
  }
  object->ready = true;
  return {object->id, object};
}

ObjectHandle InProcess::adopt(const ObjectId& id) {
  Lock lock(lock_);
  check_running();
  auto found = objects_.find(id);
  if (found == objects_.end()) {
    throw ObjectLost(
        {.kind = ErrorKind::kObjectLost, .text = base::cat("object ", id.hex(), " is gone: nobody held it any more")});
  }
  ++found->second->count;
  return {id, found->second.get()};
}

void InProcess::retain(const ObjectHandle& object) {
  Lock lock(lock_);
  if (running_) ++object_of(object)->count;
}

void InProcess::release(const ObjectHandle& object) {
  Lock lock(lock_);
  if (running_) drop(object_of(object));
}

// ---- calls ----

std::unique_ptr<Call> InProcess::new_call(const CallRequest& request, Actor* actor) {
  auto call = std::make_unique<Call>();
  call->function = internal::find_function(request.function);
  if (call->function == nullptr) {
    throw Invalid({.kind = ErrorKind::kInvalid,
                   .text = "this program has no such function",
                   .next_step = "name it with rayo::expose<Class, &Class::method>"});
  }
  call->actor = actor;
  call->arguments.assign(request.arguments.begin(), request.arguments.end());
  for (const ObjectHandle& ref : request.refs) call->refs.push_back(object_of(ref));
  for (const ObjectHandle& ref : request.inner_refs) call->inner.push_back(object_of(ref));
  for (Object* object : call->refs) ++object->count;
  for (Object* object : call->inner) ++object->count;
  for (const ActorId& inner : request.inner_actors) {
    ++actor_of(inner).count;
    call->inner_actors.push_back(inner);
  }
  return call;
}

void InProcess::end_call(std::unique_ptr<Call> call) {
  for (Object* object : call->refs) drop(object);
  for (Object* object : call->inner) drop(object);
  for (const ActorId& actor : call->inner_actors) drop_actor(actor);
  if (call->result != nullptr) drop(call->result);
}

namespace {
void expect_result(Object* result, Call& call) {
  ++result->count;  // the call's own
  result->producer = &call;
  call.result = result;
}
}  // namespace

ObjectHandle InProcess::call(const ActorId& id, const CallRequest& request) {
  Lock lock(lock_);
  check_running();
  Actor& actor = actor_of(id);
  if (actor.max_pending != 0 && actor.mailbox.size() + actor.current.size() >= actor.max_pending)
    throw_error(worker::too_many_pending(actor.runner.name, actor.max_pending));
  auto call = new_call(request, &actor);
  Object* result = new_object();
  expect_result(result, *call);
  if (actor.death) {
    fail(result, *actor.death);
    end_call(std::move(call));
  } else {
    actor.mailbox.push_back(std::move(call));
    wake(actor);
  }
  return {result->id, result};
}

ObjectHandle InProcess::submit(const TaskOptions& options, const CallRequest& request) {
  worker::check_options(options);
  Lock lock(lock_);
  check_running();
  auto call = new_call(request, nullptr);
  Object* result = new_object();
  expect_result(result, *call);
  for (Object* ref : call->refs) {
    if (ref->ready) continue;
    ref->dependents.push_back(call.get());
    ++call->waiting;
  }
  if (call->waiting == 0) {
    queue_task(std::move(call));
  } else {
    Call* key = call.get();
    waiting_tasks_.emplace(key, std::move(call));
  }
  return {result->id, result};
}

std::unique_ptr<Call> InProcess::withdraw(Call& call) {
  const auto take_from = [&call](std::deque<std::unique_ptr<Call>>& calls) {
    auto found = std::find_if(calls.begin(), calls.end(), [&](const auto& each) { return each.get() == &call; });
    if (found == calls.end()) return std::unique_ptr<Call>();
    std::unique_ptr<Call> taken = std::move(*found);
    calls.erase(found);
    return taken;
  };
  if (call.actor != nullptr) return take_from(call.actor->mailbox);
  if (auto waiting = waiting_tasks_.extract(&call)) {
    for (Object* ref : call.refs) std::erase(ref->dependents, &call);
    return std::move(waiting.mapped());
  }
  return take_from(tasks_);
}

void InProcess::when_ready(const ObjectHandle& handle, internal::ReadyNotice& notice) {
  Lock lock(lock_);
  check_running();
  Object* object = object_of(handle);
  if (object->ready) return notice.ready(notice);
  ++object->count;
  object->notices.push_back(&notice);
}

void InProcess::cancel(const ObjectHandle& handle, internal::CancelOptions) {
  Lock lock(lock_);
  check_running();
  Object* object = object_of(handle);
  if (object->ready || object->producer == nullptr) return;
  Call& call = *object->producer;
  if (call.runner != nullptr) call.runner->cancelled = true;
  std::unique_ptr<Call> withdrawn = withdraw(call);
  fail(object,
       {.kind = ErrorKind::kCancelled, .text = base::cat("the call of ", call.function->name, " was cancelled")});
  if (withdrawn != nullptr) end_call(std::move(withdrawn));
}

// ---- actors ----

Actor& InProcess::actor_of(const ActorId& id) {
  auto found = actors_.find(id);
  if (found == actors_.end())
    throw ActorDied(
        {.kind = ErrorKind::kActorDied, .text = base::cat("actor ", id.hex(), " is gone: nobody held it any more")});
  return *found->second;
}

ActorId InProcess::spawn(const ActorOptions& options, std::string_view class_name, const CallRequest& constructor) {
  Lock lock(lock_);
  check_running();
  join_finished(lock);
  const std::string name_space = options.name_space.empty() ? context_.name_space : options.name_space;
  if (auto named = names_.find({name_space, options.name}); !options.name.empty() && named != names_.end()) {
    if (!options.get_if_exists) {
      throw Invalid({.kind = ErrorKind::kInvalid,
                     .text = base::cat("the name '", options.name, "' is taken by a living actor"),
                     .next_step = "take another name, or set .get_if_exists"});
    }
    ++actor_of(named->second).count;
    return named->second;
  }
  worker::check_options(options);
  auto made = std::make_unique<Actor>();
  Actor& actor = *made;
  actor.construction = new_call(constructor, &actor);
  actor.id = base::random_id<ActorId>();
  actor.class_name = class_name;
  actor.name = options.name;
  actor.name_space = name_space;
  actor.count = options.lifetime == Lifetime::kDetached ? 2 : 1;  // a handle of its own
  actor.may_restart = options.max_restarts != 0;
  actor.most_concurrent = static_cast<size_t>(options.max_concurrency);
  actor.max_pending = static_cast<size_t>(options.max_pending_calls);
  if (actor.most_concurrent > 1)
    actor.fibers = std::make_unique<worker::CallFibers>(
        options.stack_size != 0 ? options.stack_size : ActorOptions{}.stack_size, base::system_clock());
  actor.constructor = actor.construction->function;
  actor.runner = {.actor = &actor, .name = base::cat(class_name, " (", actor.id.hex().substr(0, 8), ")")};
  actors_.emplace(actor.id, std::move(made));
  if (!actor.name.empty()) names_[{name_space, actor.name}] = actor.id;
  actor.thread = std::thread([this, &actor] { serve_actor(actor); });
  return actor.id;
}

void InProcess::retain_actor(const ActorId& id) {
  Lock lock(lock_);
  if (running_) ++actor_of(id).count;
}

void InProcess::release_actor(const ActorId& id) {
  Lock lock(lock_);
  if (running_) drop_actor(id);
}

void InProcess::drop_actor(const ActorId& id) {
  Actor& actor = actor_of(id);
  if (--actor.count > 0) return;
  if (actor.thread.joinable())
    wake(actor);  // ends once its mailbox is empty
  else
    actors_.erase(id);
}

ActorRecord InProcess::find_actor(std::string_view name, std::string_view name_space) {
  Lock lock(lock_);
  check_running();
  auto named = names_.find({std::string(name_space.empty() ? context_.name_space : name_space), std::string(name)});
  if (named == names_.end()) {
    throw Invalid({.kind = ErrorKind::kInvalid,
                   .text = base::cat("no living actor is called '", name, "'"),
                   .next_step = "spawn it with that name and keep a handle: an actor ends with its last one"});
  }
  Actor& actor = actor_of(named->second);
  ++actor.count;
  return {actor.id, actor.class_name, actor.constructor->id};
}

ActorRecord InProcess::look_up(const ActorId& id) {
  Lock lock(lock_);
  check_running();
  const Actor& actor = actor_of(id);
  return {actor.id, actor.class_name, actor.constructor->id};
}

void InProcess::store(std::string_view key, internal::Bytes value) {
  Lock lock(lock_);
  check_running();
  stored_.emplace(key, std::string(reinterpret_cast<const char*>(value.data()), value.size()));
}

JobId InProcess::open_program(const std::string& path) {
  throw Unavailable({.kind = ErrorKind::kUnavailable,
                     .text = base::cat("the program ", path, " cannot run in this process"),
                     .next_step = "join a cluster: rayo::init without .in_process"});
}

std::optional<std::string> InProcess::load(std::string_view key) {
  Lock lock(lock_);
  check_running();
  const auto found = stored_.find(key);
  if (found == stored_.end()) return std::nullopt;
  return found->second;
}

void InProcess::kill_actor(const ActorId& id, KillOptions options) {
  Lock lock(lock_);
  check_running();
  Actor& actor = actor_of(id);
  if (!options.no_restart && actor.may_restart) {
    throw Invalid(
        {.kind = ErrorKind::kInvalid,
         .text = base::cat("actor ", actor.runner.name, " cannot begin anew: inside this process it has one life"),
         .next_step = "join a cluster: rayo::init without .in_process"});
  }
  DeathRecord death{.at = std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now()),
                    .node = context_.node,
                    .pid = ::getpid(),
                    .kind = DeathKind::kKilled,
                    .text = "it was killed by rayo::kill"};
  end_actor(actor, {.kind = ErrorKind::kActorDied,
                    .text = base::cat("actor ", actor.runner.name, " is dead: ", death.text),
                    .death = death});
}

std::vector<NodeRecord> InProcess::nodes() {
  Lock lock(lock_);
  check_running();
  NodeRecord node;
  node.id = context_.node;
  node.hostname = host_name();
  node.head = true;
  node.total["cpu"] = static_cast<double>(limit_);
  node.free["cpu"] = static_cast<double>(limit_ - std::min(limit_, active_));
  return {node};
}

}  // namespace rayo::api
