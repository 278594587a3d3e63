// init({.in_process = true}): the whole of Rayo in this process, for unit tests and debuggers. Values are
// encoded and decoded as between processes, so what cannot travel fails here too. An actor is a thread with a
// mailbox; tasks run on a small pool, and on the thread that waits for them. Order of calls, errors with type
// and stack, time-outs, names, kill and reference counts are those of a cluster; placement is not: every
// resource is there.
//
// One lock guards everything (Invariants below); user code and the decoding of values run without it.
//  1. What is counted in Object and Call is counted once per mention; at 0 it is gone.
//  2. An object becomes ready once; its value never changes after.
//  3. A task is queued when its last ref is ready; an actor's next call waits for its own refs, so that order
//  holds.
//  4. `active_` counts the tasks that run and do not wait: at most `limit_` are begun.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/api/in_process_state.h"

namespace rayo::api {

class InProcess final : public internal::Backend {
 public:
  explicit InProcess(const InitOptions& options);
  ~InProcess() override;

  // Ends actors and tasks and waits for the user code that runs; then every call throws Unavailable. Invalid from within an
  // actor or task, which would wait for itself; without effect there where the process ends.
  void shutdown(bool process_ends = false);

  internal::ObjectHandle call(const ActorId& actor, const internal::CallRequest& request) override;
  internal::ObjectHandle submit(const TaskOptions& options, const internal::CallRequest& request) override;
  ActorId spawn(const ActorOptions& options, std::string_view class_name,
                const internal::CallRequest& constructor) override;
  internal::ObjectHandle put(std::span<const internal::Bytes> parts, std::span<const internal::ObjectHandle> inner_refs,
                             std::span<const ActorId> inner_actors) override;
  bool get(const internal::ObjectHandle& object, std::chrono::nanoseconds timeout, internal::ValueReader read,
           void* context) override;
  bool ready(const internal::ObjectHandle& object) override;
  size_t wait(std::span<const internal::ObjectHandle> objects, size_t count, std::chrono::nanoseconds timeout,
              std::vector<bool>& ready) override;
  void when_ready(const internal::ObjectHandle& object, internal::ReadyNotice& notice) override;
  bool wait_for(bool (*ready)(void* context), void* context, std::chrono::nanoseconds timeout) override;
  void cancel(const internal::ObjectHandle& object, internal::CancelOptions how) override;
  bool is_cancelled() override;
  internal::ObjectHandle adopt(const ObjectId& id) override;
  void retain(const internal::ObjectHandle& object) override;
  void release(const internal::ObjectHandle& object) override;
  void retain_actor(const ActorId& actor) override;
  void release_actor(const ActorId& actor) override;
  internal::ActorRecord look_up(const ActorId& actor) override;
  internal::ActorRecord find_actor(std::string_view name, std::string_view name_space) override;
  void kill_actor(const ActorId& actor, KillOptions options) override;
  void store(std::string_view key, internal::Bytes value) override;
  std::optional<std::string> load(std::string_view key) override;
  JobId open_program(const std::string& path) override;
  internal::MadeStream make_stream(const StreamOptions& options) override;
  std::unique_ptr<internal::StreamReading> open_stream(const internal::StreamAddress& address) override;
  void run_blocking(void (*run)(void* context), void* context) override;
  std::vector<NodeRecord> nodes() override;
  ContextRecord context() override;

 private:
  using Lock = std::unique_lock<std::mutex>;
  using Until = std::optional<internal::Clock::time_point>;
  class Waiting;
  class Inside;

  static bool in_user_code();  // this thread runs an actor or task
  // Everything below wants the lock held.
  void check_running() const;
  void notify() { ++changes_, changed_.notify_all(); }
  void wake(Actor& actor);
  Object* new_object();
  void drop(Object* object);  // one count less
  void drop_actor(const ActorId& id);
  void complete(Object* object, Object&& outcome);  // takes value or error and what is inside of it
  void fail(Object* object, ErrorRecord error);
  std::unique_ptr<Call> new_call(const internal::CallRequest& request, Actor* actor);
  void end_call(std::unique_ptr<Call> call);
  std::unique_ptr<Call> withdraw(Call& call);  // null: it has started
  Actor& actor_of(const ActorId& id);

  // in_process_run.cc: these run user code and give the lock up meanwhile.
  std::optional<ErrorRecord> run(Lock& lock, Call& call, Runner& runner);
  void run_task(Lock& lock, std::unique_ptr<Call> call);
  void queue_task(std::unique_ptr<Call> call);
  void want_thread();
  void serve_tasks();                           // a pool thread
  void help(Lock& lock, const Object* object);  // runs the queued task that makes it, here
  void serve_actor(Actor& actor);               // an actor's thread
  void construct(Lock& lock, Actor& actor);
  void serve_one(Lock& lock, Actor& actor, std::unique_ptr<Call> call, Runner& runner);
  void serve_in_fiber(Lock& lock, Actor& actor);
  bool may_start(const Actor& actor) const;
  // Until something that could let a wait end has happened; in a fiber others of its actor go on.
  void pause(Lock& lock, const Until& until);
  bool await_refs(Lock& lock, Call& call);
  void end_actor(Actor& actor, ErrorRecord death);
  void check_deadlock(const Object* object) const;  // throws Deadlock
  bool wait_on(Lock& lock, Object* object, const Until& until);
  bool wait_for(Lock& lock, const std::function<bool()>& ready, const Until& until);
  static Until until(std::chrono::nanoseconds timeout);

  // in_process_streams.cc
  class Writing;
  class Reading;
  void cancel_items(LocalStream& stream);  // nobody reads
  void marker_gone(LocalStream& stream);
  void end_streams_of(const Actor& actor);
  void let_go(LocalStream::Item item);
  void join_finished(Lock& lock);

  std::mutex lock_;
  std::condition_variable changed_;  // an object is ready, a runner was stopped, a thread is finished
  uint64_t changes_ = 0;             // how often `changed_` was notified
  std::condition_variable task_wake_;
  bool running_ = true;
  const ContextRecord context_;  // outside actors
  const size_t limit_;
  size_t active_ = 0;
  size_t idle_ = 0;    // pool threads that wait for a task
  size_t inside_ = 0;  // threads that wait, or read a value: objects and streams are kept for them
  uint64_t next_object_ = 0;
  std::unordered_map<ObjectId, std::unique_ptr<Object>> objects_;
  std::unordered_map<ActorId, std::unique_ptr<Actor>> actors_;
  std::map<std::pair<std::string, std::string>, ActorId> names_;    // by namespace and name
  std::deque<std::unique_ptr<Call>> tasks_;                         // their refs are ready
  std::unordered_map<Call*, std::unique_ptr<Call>> waiting_tasks_;  // theirs are not
  std::map<std::string, std::string, std::less<>> stored_;
  std::map<LocalStream*, std::unique_ptr<LocalStream>> streams_;
  std::vector<std::thread> pool_;
  std::vector<std::thread> finished_;  // threads of actors that have ended
};

}  // namespace rayo::api
