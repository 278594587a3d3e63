// The executing side: this process's actor, or the tasks of a lease, run one at a time on the main thread's own stack.
//
//   while (engine.wait_until([&] { return host.has_work(); })) host.run_one();
//
// A method that waits in get drives the engine; calls that arrive meanwhile queue in the mailbox (max_concurrency 1). With
// more each call has a stack of its own (call_fibers.h), and others start or go on while it waits; or, where stacks have no
// size, methods return before their calls have ended and finish them later, from other threads (internal::OpenCall).
// Under the baton, which user code runs without. on_* come from the sink.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <rayo/internal/registry.h>

#include "runtime/worker/call_fibers.h"
#include "runtime/worker/call_history.h"
#include "runtime/worker/call_wire.h"
#include "runtime/worker/mailbox.h"
#include "runtime/worker/raylet_link.h"
#include "runtime/worker/references.h"

namespace rayo::worker {

// A result up to this size travels in the reply; the frame's limit leaves room for what else is in it.
inline constexpr size_t kMaxResult = (16u << 20) - (64u << 10);

class CallHost {
 public:
  struct Wires {
    Engine& engine;
    RayletLink& raylet;
    ArenaStore& arena;
    ObjectTable& table;
    References& references;
    CallHistory& history;
    // Sends a reply: to a peer, or to ourselves. False: the peer is gone.
    std::function<bool(PeerId, const rpc::FrameHeader&, std::span<const Bytes>)> send;
    // Who calls by that link.
    std::function<proto::ProcessAddress(PeerId)> caller;
  };
  // Of a language: the caller of a call that runs wants no result any more.
  using CancelHook = void (*)(internal::OpenCall& call);

  explicit CallHost(Wires wires);
  ~CallHost();

  void on_call(PeerId peer, const rpc::FrameHeader& header, ByteView body);
  // The caller holds the refs inside that reply itself now.
  void on_refs_taken(PeerId peer, uint64_t call_id);
  // Its caller waits no more: a call that has not started never will, one that runs is told by is_cancelled().
  void on_cancel(PeerId peer, uint64_t call_id, uint64_t how);
  // Their caller wants its tasks back, but the one named, where they have not started.
  void on_take_back(PeerId peer, uint64_t keep);
  void tell_cancels(CancelHook hook) { told_cancels_ = hook; }
  void on_peer_closed(PeerId peer);
  // Nothing of that peer waits or runs here, and nothing given to it is waited for.
  bool quiet(PeerId peer) const;
  void on_host_actor(const proto::HostActor& request);
  void on_host_tasks(const proto::HostTasks& request);

  bool has_work() const {
    if (starting_ && starting_->unready == 0) return true;
    if (fibers_) return has_fiber_work();
    return open() && mailbox_.may_take() && concurrent_.size() < most_concurrent_;
  }
  // One constructor or call (or calls whose wait is over), where there is one; the caller has made sure that user code
  // may run.
  bool run_one();
  // When has_work() may turn true by itself.
  base::TimePoint next_deadline() const { return fibers_ ? fibers_->next_deadline() : base::kForever; }
  // A call that runs on a stack of its own waits: others go on. False: the deadline passed.
  bool in_fiber() const { return fibers_ && fibers_->inside(); }
  bool wait_in_fiber(const std::function<bool()>& ready, base::TimePoint deadline);
  // A running call waits for something: what it runs under may be lent.
  struct Running {
    PeerId peer = kNoPeer;
    uint64_t call_id = 0;
    const internal::Function* function = nullptr;
    bool task = false;
  };
  const Running* running() const { return at_->running ? &*at_->running : nullptr; }
  // The id of a call of that peer: of its result. Without node and process where the peer is gone.
  ObjectId call_of(PeerId peer, uint64_t call_id);
  bool is_cancelled() const { return at_->cancelled(); }
  // User code has begun and not ended.
  bool busy() const { return main_.running || !concurrent_.empty(); }
  // What this process was told to be: an actor's host, or a lease's worker.
  struct Hosted {
    ActorId actor;
    std::string class_name;
    uint32_t incarnation = 0;
    void* self = nullptr;
    const internal::Function* constructor = nullptr;
    bool tasks = false;
    LeaseId lease;
    std::vector<std::string> devices;
    std::map<std::string, double> resources;
    std::string actor_name;
  };
  const Hosted& hosted() const { return hosted_; }
  Mailbox& mailbox() { return mailbox_; }
  // Ends the actor's object, in good order.
  void destroy_actor();

 private:
  struct Method {
    const internal::Function* function = nullptr;
    bool maybe_long = true;
    uint32_t runs = 0;
  };
  struct Hook : ReadyHook {
    CallHost* host = nullptr;
    size_t* unready = nullptr;
    PeerId peer = kNoPeer;  // kNoPeer: the constructor
  };

  struct Starting {
    proto::ActorSpec spec;
    std::vector<internal::ObjectHandle> refs;
    size_t unready = 0;
  };
  struct Output {
    std::vector<std::byte> bytes;
    std::vector<internal::ObjectHandle> refs;
    std::vector<ActorId> actors;
    void clear() { bytes.clear(), refs.clear(), actors.clear(); }
    bool bare() const { return refs.empty() && actors.empty(); }
    // Of the reply that it travels in: the value, and the ids of what is inside.
    size_t size() const { return bytes.size() + refs.size() * sizeof(ObjectId) + actors.size() * sizeof(ActorId); }
  };
  // One call from its start to its reply.
  struct Execution final : internal::OpenCall {
    explicit Execution(CallHost& own_host) : host(own_host) {}
    void answer_now() override { host.answer_now(*this); }
    bool may_defer() const override { return this != &host.main_ && !host.fibers_; }
    void defer(void* owner) override { owner_ = owner, deferred = true; }
    void finish(const ErrorRecord* error) override { host.finish(*this, error); }
    ObjectId id() override { return host.id_of_call(*this); }
    void cancel(bool recursive) { recursive_ = recursive, cancelled_ = true; }
    void begin() {
      recursive_ = cancelled_ = answered = deferred = finished = false;
      call.ran_us = 0;
      name_ = nullptr;
    }
    const char* better_name() const { return name_.load(std::memory_order_relaxed); }

    CallHost& host;
    IncomingCall call;
    internal::Invocation invocation;
    std::vector<internal::ValueView> values;
    std::optional<Running> running;
    Output output;
    std::optional<ErrorRecord> error;  // of a deferred one
    CallHistory::Place noted = 0;
    bool answered = false;
    bool deferred = false;
    bool inside = false;  // `invoke` has not returned
    bool finished = false;
  };

  bool has_fiber_work() const;
  bool run_fibers();
  bool run_deferring();
  void answer_now(Execution& execution);
  void finish(Execution& execution, const ErrorRecord* error);
  ObjectId id_of_call(const Execution& execution);
  void erase(Execution& execution);
  Execution* find(PeerId peer, uint64_t call_id);
  // May begin a call. A task waits until the answers of those before it are out (task_window.h, 3).
  bool open() const { return hosted_.self != nullptr || (hosted_.tasks && unconfirmed_ == 0); }
  Method& method(uint64_t id);
  // A counted handle of an argument; where its value is not here yet it is asked for and counted in `unready`.
  internal::ObjectHandle fetch(const ObjectId& id, size_t& unready, PeerId peer);
  static void on_ready(ReadyHook& hook);
  std::unique_ptr<CallRefs> take_refs(PeerId peer, const BodyView& view);

  void construct();
  void run(Execution& execution);
  std::optional<ErrorRecord> check(const IncomingCall& call, const Method& method) const;
  std::optional<ErrorRecord> invoke(Method& method, internal::Invocation& invocation);
  // What our raylet has to have told before a reply leaves, since the caller keeps until then what it named.
  using Told = std::optional<References::Confirm>;
  // Lets go of the call's arguments. What is to be told: something is kept of them here.
  Told end_arguments(IncomingCall& call);
  bool keeps_unknown_actor(const IncomingCall& call) const;
  void reply(Execution& execution, const std::optional<ErrorRecord>& error);
  void reply_error(const IncomingCall& call, const ErrorRecord& error, const Told& first = {}, uint16_t flags = 0);
  void reply_value(Execution& execution, const Told& first, uint16_t flags = 0);
  void reply_with_refs(Execution& execution, rpc::FrameHeader header, const Told& first);
  // A large result goes into the arena under the caller's id; else why it has to travel in the reply.
  std::optional<ErrorRecord> seal(const Execution& execution);
  void send_reply(PeerId peer, const rpc::FrameHeader& header, std::span<const Bytes> parts, const Told& first);
  void let_go_of(const std::vector<internal::ObjectHandle>& refs, const std::vector<ActorId>& actors);

  const Wires wires_;
  // Node and process (short ids) of those who called, asked for once; the last one apart.
  std::unordered_map<PeerId, ObjectId> callers_;
  PeerId last_caller_ = kNoPeer;
  ObjectId last_caller_id_;

  Hosted hosted_;
  std::optional<Starting> starting_;
  Mailbox mailbox_;
  std::unordered_map<uint64_t, Method> methods_;
  Method* last_method_ = nullptr;
  uint64_t last_method_id_ = 0;
  Execution main_{*this};  // on the main thread's own stack
  Execution* at_ = &main_;
  std::unique_ptr<CallFibers> fibers_;  // max_concurrency > 1
  std::list<Execution> concurrent_;     // each on a stack of its own, or deferred
  size_t most_concurrent_ = 1;
  CancelHook told_cancels_ = nullptr;
  std::set<std::pair<PeerId, uint64_t>> not_to_start_;  // cancelled: answered when their turn comes
  std::map<std::pair<PeerId, uint64_t>, Inner> given_;  // inside replies, until the caller holds them
  size_t unconfirmed_ = 0;                              // replies that wait for our raylet's word
};

}  // namespace rayo::worker
