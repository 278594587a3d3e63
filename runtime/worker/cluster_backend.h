// The public API's calls on a cluster: what internal::Backend promises, over Traffic. Takes the baton, does one thing,
// lets out what was put off. Errors are thrown here and nowhere below.
//
// Any thread of the user; in a child of the user's fork every function throws (or, for handles, does nothing).
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include <rayo/internal/backend.h>

#include "runtime/worker/fork_guard.h"
#include "runtime/worker/hello.h"
#include "runtime/worker/interrupts.h"
#include "runtime/worker/traffic.h"
#include "runtime/worker/wait_chain.h"

namespace rayo::worker {

class ClusterBackend : public internal::Backend {
 public:
  struct Self {
    ContextRecord context;
    PackageId package;
  };
  ClusterBackend(Traffic& traffic, WaitChain& chain, Self self);

  // Of a driver: its Ctrl-C ends waits.
  void set_interrupts(Interrupts* interrupts) { interrupts_ = interrupts; }
  // Every later call throws Unavailable; whoever waits ends so too. Under the baton.
  void close();

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
  void end_waits_while(const std::atomic<bool>* flag) override;
  void interrupt() noexcept override { traffic_.engine().interrupt(); }
  void cancel(const internal::ObjectHandle& object, internal::CancelOptions how) override;
  bool is_cancelled() override;
  internal::ObjectHandle adopt(const ObjectId& id) override;
  void retain(const internal::ObjectHandle& object) override;
  void release(const internal::ObjectHandle& object) override;
  void settle(std::span<const ActorId> actors) override;
  void retain_actor(const ActorId& actor) override;
  void release_actor(const ActorId& actor) override;
  internal::ActorRecord find_actor(std::string_view name, std::string_view name_space) override;
  internal::ActorRecord look_up(const ActorId& actor) override;
  void kill_actor(const ActorId& actor, KillOptions options) override;
  void run_blocking(void (*run)(void* context), void* context) override;
  void store(std::string_view key, internal::Bytes value) override;
  std::optional<std::string> load(std::string_view key) override;
  JobId open_program(const std::string& path) override;
  internal::MadeStream make_stream(const StreamOptions& options) override;
  std::unique_ptr<internal::StreamReading> open_stream(const internal::StreamAddress& address) override;
  std::vector<NodeRecord> nodes() override;
  ContextRecord context() override;

  // ---- for the ends of streams ----
  using Hold = std::unique_lock<Baton>;
  // Takes the baton; throws where this process may not use it any more.
  Hold enter();
  // The same for what only lets go: empty where nothing is left to do.
  Hold enter_to_release();
  // As get() waits; false: the deadline passed.
  bool wait_until(const std::function<bool()>& ready, base::TimePoint deadline, PeerId peer);
  Traffic& traffic() { return traffic_; }

 private:
  void wait_for_room(ActorClient& client);
  // Waits until `ready` holds; false at the deadline. Throws Cancelled on Ctrl-C and Unavailable at shutdown.
  template <class Ready>
  bool drive(Ready&& ready, base::TimePoint deadline, PeerId peer);
  // The same inside a call on the main thread: lends the CPU, looks for cycles.
  bool drive_nested(ObjectSlot* slot, const std::function<bool()>& ready, base::TimePoint deadline);
  bool in_call() const;
  // Of this thread's waits; null: nothing ends them early.
  const std::atomic<bool>* ends_waits() const;
  void lend(bool take_back);
  void run_elsewhere(void (*run)(void* context), void* context);
  proto::ActorSpec spec_of(const ActorOptions& options, std::string_view class_name,
                           const internal::CallRequest& constructor);
  // What the head has to answer: creation by name, look-ups, lists.
  static constexpr base::Duration kControlTimeout = std::chrono::seconds(30);

  void await_registered(std::span<const ActorId> actors);
  proto::ToRaylet key_value(proto::KeyValue::Op op, std::string_view key) const;
  // The raylet's answer, or its failure thrown.
  proto::ToWorker ask(const proto::ToRaylet& message, base::Duration timeout, std::span<const int> fds = {});
  proto::ToWorker send_program(const ProgramFile& program, const std::string& path);
  [[noreturn]] void refuse_closed() const;

  Traffic& traffic_;
  WaitChain& chain_;
  Self self_;
  Interrupts* interrupts_ = nullptr;
  const std::thread::id main_thread_;
  const std::atomic<bool>* ends_waits_ = nullptr;  // of one thread's
  std::thread::id ends_waits_of_;
  ForkGuard fork_;
  bool closed_ = false;
  bool lent_ = false;
};

}  // namespace rayo::worker
