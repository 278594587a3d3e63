#include "runtime/worker/cluster_backend.h"

#include <algorithm>
#include <exception>

#include "runtime/base/ids.h"
#include "runtime/base/signals_blocked.h"
#include "runtime/base/text.h"
#include "runtime/worker/cluster_streams.h"
#include "runtime/worker/demand.h"
#include "runtime/worker/detached_arguments.h"
#include "runtime/worker/failure.h"

namespace rayo::worker {

namespace {

using internal::CallRequest;
using internal::ObjectHandle;

// How long a call waits for room in its actor's window before it is refused.
constexpr base::Duration kRoomTimeout = std::chrono::seconds(60);
// How long kill() waits for the news of the end.
constexpr base::Duration kKillTimeout = std::chrono::seconds(2);
// A wait inside a task lends its CPU after this.
constexpr base::Duration kLendAfter = std::chrono::milliseconds(1);
constexpr base::Duration kLongestProbe = std::chrono::seconds(1);

void check_size(const CallRequest& request) {
  if (auto refused = too_large(request)) throw_error(*std::move(refused));
}

// Without an arena a value goes to its home in one frame, where others ask for it.
void check_inline(size_t bytes) {
  constexpr size_t kMost = rpc::kMaxFrameBody - (1u << 20);  // the rest is for the ids of what is inside
  if (bytes <= kMost) return;
  throw_error(error_record(
      ErrorKind::kInvalid,
      base::cat("put of ", bytes, " bytes: this process has no arena, and without one a value has at most ", kMost),
      "put it in parts, or run the program on a node whose object store is not 0 (`rayo start "
      "--object-store-memory`)"));
}

[[noreturn]] void throw_forked() {
  throw_error(error_record(ErrorKind::kUnavailable, "this process was forked from one that uses Rayo",
                           "use Rayo in the parent, or start a program of its own that calls init"));
}

}  // namespace

ClusterBackend::ClusterBackend(Traffic& traffic, WaitChain& chain, Self self)
    : traffic_(traffic), chain_(chain), self_(std::move(self)), main_thread_(std::this_thread::get_id()) {}

void ClusterBackend::close() {
  closed_ = true;
  traffic_.engine().wake();
}

void ClusterBackend::refuse_closed() const {
  throw_error(error_record(ErrorKind::kUnavailable, "this program has left its cluster", "call rayo::init again"));
}

ClusterBackend::Hold ClusterBackend::enter() {
  if (fork_.in_child()) throw_forked();
  Hold hold(traffic_.engine().baton());
  if (closed_) refuse_closed();
  if (traffic_.table().has_released()) traffic_.table().drain();
  return hold;
}

ClusterBackend::Hold ClusterBackend::enter_to_release() {
  if (fork_.in_child()) return {};
  Hold hold(traffic_.engine().baton());
  return closed_ ? Hold() : std::move(hold);
}

// ---- waiting ----

bool ClusterBackend::in_call() const { return traffic_.host().running() && std::this_thread::get_id() == main_thread_; }

template <class Ready>
bool ClusterBackend::drive(Ready&& ready, base::TimePoint deadline, PeerId peer) {
  if (ready()) return true;
  traffic_.finish_turn();
  Interrupts* interrupts = interrupts_;
  const std::atomic<bool>* ends = ends_waits();
  auto enough = [&] { return ready() || closed_ || (interrupts && interrupts->pending()) || (ends && ends->load()); };
  while (true) {
    if (interrupts) interrupts->begin_wait();
    const bool woken = traffic_.engine().wait_until(enough, deadline, peer);
    if (interrupts) interrupts->end_wait();
    if (ready()) return true;
    if (interrupts && interrupts->take())
      throw_error(error_record(ErrorKind::kCancelled, "the wait was interrupted by Ctrl-C"));
    if (closed_) refuse_closed();
    if (!woken || (ends && ends->load())) return false;
  }
}

bool ClusterBackend::drive_nested(ObjectSlot* slot, const std::function<bool()>& done, base::TimePoint deadline) {
  Engine& engine = traffic_.engine();
  const std::atomic<bool>* ends = ends_waits();
  const auto ready = [&] { return done() || (ends && ends->load()); };
  const PeerId peer = slot && slot->owner ? slot->owner->link() : kNoPeer;
  traffic_.finish_turn();
  if (traffic_.host().in_fiber()) return done() || traffic_.host().wait_in_fiber(done, deadline);
  base::TimePoint now = traffic_.clock().now();
  const base::TimePoint short_wait = std::min(deadline, now + kLendAfter);
  if (engine.wait_until(ready, short_wait, peer)) return done();
  if (deadline == short_wait) return false;
  const bool lends = traffic_.host().running()->task && !lent_;
  if (lends) lend(false);
  if (slot) chain_.begin(*slot);
  for (base::Duration span = kFirstProbe; !ready() && now < deadline; span = std::min(span * 5, kLongestProbe)) {
    traffic_.finish_turn();
    engine.wait_until(ready, std::min(deadline, now + span), kNoPeer);
    now = traffic_.clock().now();
    if (!ready()) chain_.probe();
  }
  chain_.end();
  if (lends) lend(true);
  return done();
}

bool ClusterBackend::wait_until(const std::function<bool()>& ready, base::TimePoint deadline, PeerId peer) {
  return in_call() ? drive_nested(nullptr, ready, deadline) : drive(ready, deadline, peer);
}

void ClusterBackend::lend(bool take_back) {
  if (lent_ != take_back) return;
  lent_ = !take_back;
  proto::ToRaylet message;
  set_id(message.mutable_lend_cpu()->mutable_lease(), traffic_.host().hosted().lease);
  message.mutable_lend_cpu()->set_take_back(take_back);
  if (!take_back) return traffic_.raylet().push(message);
  // However long others use it: user code goes on only with what its lease holds. Ends when the raylet does.
  (void)traffic_.raylet().ask(message, std::chrono::hours(24 * 365));
}

void ClusterBackend::run_blocking(void (*run)(void* context), void* context) {
  {
    Hold hold = enter();
    if (in_call() && traffic_.host().in_fiber()) {
      hold.unlock();
      return run_elsewhere(run, context);
    }
    if (in_call() && traffic_.host().running()->task) lend(false);
    traffic_.finish_turn();
  }
  struct TakeBack {
    ClusterBackend* backend;
    ~TakeBack() {
      const Hold hold = backend->enter_to_release();
      if (hold && backend->in_call()) backend->lend(true);
    }
  } take_back{this};
  run(context);
}

void ClusterBackend::run_elsewhere(void (*run)(void* context), void* context) {
  std::exception_ptr thrown;
  bool done = false;
  const auto run_it = [&] {
    try {
      run(context);
    } catch (...) {
      thrown = std::current_exception();
    }
    std::lock_guard hold(traffic_.engine().baton());
    done = true;
    traffic_.engine().wake();
  };
  std::thread helper;
  {
    const base::SignalsBlocked blocked;
    helper = std::thread(run_it);
  }
  {
    std::lock_guard hold(traffic_.engine().baton());
    traffic_.host().wait_in_fiber([&done] { return done; }, base::kForever);
  }
  helper.join();
  if (thrown) std::rethrow_exception(thrown);
}

bool ClusterBackend::get(const ObjectHandle& object, std::chrono::nanoseconds timeout, internal::ValueReader read,
                         void* context) {
  ObjectSlot& slot = slot_of(object);
  if (fork_.in_child()) throw_forked();
  if (!slot.ready()) {
    Hold hold = enter();
    if (!slot.own) traffic_.references().resolve(slot);
    const base::TimePoint deadline =
        timeout.count() < 0 ? base::kForever : base::deadline_after(traffic_.clock().now(), timeout);
    const bool done =
        in_call() ? drive_nested(
                        &slot, [&slot] { return slot.ready(); }, deadline)
                  : drive([&slot] { return slot.ready(); }, deadline, slot.owner ? slot.owner->link() : kNoPeer);
    if (!done) return false;
  }
  read(context, slot.view());
  return true;
}

bool ClusterBackend::ready(const ObjectHandle& object) {
  ObjectSlot& slot = slot_of(object);
  if (fork_.in_child()) throw_forked();
  if (slot.ready()) return true;
  Hold hold = enter();
  if (!slot.own) traffic_.references().resolve(slot);
  return drive([&slot] { return slot.ready(); }, traffic_.clock().now(), kNoPeer);
}

namespace {

// Counts objects as they become ready; lets go of those that did not when it ends.
class ReadyCount {
 public:
  ReadyCount(ObjectTable& table, std::span<const ObjectHandle> objects) : table_(table), hooks_(objects.size()) {
    for (size_t i = 0; i < objects.size(); ++i) {
      ObjectSlot& slot = slot_of(objects[i]);
      if (slot.ready()) {
        ++count_;
        continue;
      }
      hooks_[i].slot = &slot;
      hooks_[i].count = &count_;
      hooks_[i].ready = [](ReadyHook& base) {
        auto& hook = static_cast<Hook&>(base);
        hook.slot = nullptr;
        ++*hook.count;
      };
      table_.await(slot, hooks_[i]);
    }
  }
  ~ReadyCount() {
    for (Hook& hook : hooks_)
      if (hook.slot) table_.forget(*hook.slot, hook);
  }
  ReadyCount(const ReadyCount&) = delete;
  ReadyCount& operator=(const ReadyCount&) = delete;
  const size_t& count() const { return count_; }

 private:
  struct Hook : ReadyHook {
    ObjectSlot* slot = nullptr;
    size_t* count = nullptr;
  };
  ObjectTable& table_;
  size_t count_ = 0;
  std::vector<Hook> hooks_;
};

}  // namespace

size_t ClusterBackend::wait(std::span<const ObjectHandle> objects, size_t count, std::chrono::nanoseconds timeout,
                            std::vector<bool>& ready) {
  Hold hold = enter();
  for (const ObjectHandle& object : objects)
    if (ObjectSlot& slot = slot_of(object); !slot.own) traffic_.references().resolve(slot);
  {
    ReadyCount counter(traffic_.table(), objects);
    const size_t& have = counter.count();
    const size_t wanted = std::min(count, objects.size());
    const base::TimePoint deadline =
        timeout.count() < 0 ? base::kForever : base::deadline_after(traffic_.clock().now(), timeout);
    auto enough = [&] { return have >= wanted; };
    if (in_call())
      drive_nested(nullptr, enough, deadline);
    else
      drive(enough, deadline, kNoPeer);
  }
  ready.assign(objects.size(), false);
  size_t sum = 0;
  for (size_t i = 0; i < objects.size(); ++i) sum += ready[i] = slot_of(objects[i]).ready();
  return sum;
}

// ---- calls ----

void ClusterBackend::wait_for_room(ActorClient& client) {
  auto room = [&client] { return client.room() || client.dead(); };
  const base::TimePoint deadline = base::deadline_after(traffic_.clock().now(), kRoomTimeout);
  const bool done = in_call() ? drive_nested(nullptr, room, deadline) : drive(room, deadline, client.link());
  if (!done)
    throw_error(error_record(
        ErrorKind::kBackpressure,
        base::cat("actor ", client.who(), " has ", kWindow, " calls of this process under way and ended none for ",
                  base::fixed(base::seconds(kRoomTimeout), 0), " s"),
        "wait for earlier results before making more calls"));
}

ObjectHandle ClusterBackend::call(const ActorId& actor, const CallRequest& request) {
  check_size(request);
  Hold hold = enter();
  await_registered(request.inner_actors);
  ActorClient& client = traffic_.actors().of(actor);
  if (client.full()) throw_error(too_many_pending(client.who(), client.max_pending()));
  if (!client.room()) wait_for_room(client);
  ObjectTable& table = traffic_.table();
  ObjectSlot& slot = table.mint();
  traffic_.history().made(slot.id.counter, base::short_id(actor), request.name, request.function);
  if (!client.call_now(slot, request)) client.submit(std::make_unique<OutgoingCall>(table, traffic_, slot, request));
  // One call at a time leaves at once; of many under way each 32 leave together, the rest when somebody waits or soon.
  if (client.outstanding() <= 1 || traffic_.references().dirty())
    traffic_.finish_turn();
  else
    traffic_.finish_turn_soon();
  return slot.handle();
}

ObjectHandle ClusterBackend::submit(const TaskOptions& options, const CallRequest& request) {
  check_size(request);
  check_options(options);
  Hold hold = enter();
  await_registered(request.inner_actors);
  ObjectTable& table = traffic_.table();
  ObjectSlot& slot = table.mint();
  traffic_.history().made(slot.id.counter, 0, request.name, request.function);
  const internal::Function* function = internal::find_function(request.function);
  const char* name = request.name ? request.name : function ? function->name : "task";
  const bool at_once = traffic_.tasks().submit(
      options, name, std::make_unique<OutgoingCall>(table, traffic_, slot, request), request.program);
  if (at_once || traffic_.references().dirty())
    traffic_.finish_turn();
  else
    traffic_.finish_turn_soon();
  return slot.handle();
}

void ClusterBackend::cancel(const ObjectHandle& object, internal::CancelOptions how) {
  Hold hold = enter();
  ObjectSlot& slot = slot_of(object);
  if (slot.ready()) return;
  if (!slot.own)
    throw_error(error_record(ErrorKind::kInvalid, "a call can be cancelled only where it was made",
                             "keep the ObjectRef that call or remote answered, and cancel that"));
  CallOwner* owner = slot.owner;
  std::unique_ptr<OutgoingCall> withdrawn;
  if (!owner) {
    withdrawn = traffic_.tasks().withdraw(slot);
    if (!withdrawn) withdrawn = traffic_.actors().withdraw(slot);
    if (!withdrawn) return;  // it has ended, and its value is on its way
  } else if (owner->link() != kNoPeer) {
    rpc::FrameHeader header;
    header.kind = rpc::FrameKind::kCancel;
    header.flags = rpc::kFlagUrgent;
    header.call_id = slot.id.counter;
    header.function = (how.force ? rpc::kCancelForce : 0) | (how.recursive ? rpc::kCancelRecursive : 0);
    traffic_.send(owner->link(), header, {});
    if (slot.ready()) return traffic_.finish_turn();  // of this process itself, which has answered
  }
  const std::string who = owner ? base::cat(" to ", owner->who()) : std::string();
  traffic_.table().fail(slot, error_record(ErrorKind::kCancelled, base::cat("the call", who, " was cancelled")));
  if (owner) owner->given_up(slot.id.counter);
  traffic_.engine().wake();
  traffic_.finish_turn();
}

bool ClusterBackend::is_cancelled() {
  Hold hold = enter();
  return in_call() && traffic_.host().is_cancelled();
}

ObjectHandle ClusterBackend::put(std::span<const internal::Bytes> parts, std::span<const ObjectHandle> inner_refs,
                                 std::span<const ActorId> inner_actors) {
  size_t size = 0;
  for (const internal::Bytes& part : parts) size += part.size();
  Hold hold = enter();
  if (!traffic_.arena().has()) check_inline(size);
  await_registered(inner_actors);
  Inner inner;
  inner.refs.assign(inner_refs.begin(), inner_refs.end());
  for (const ObjectHandle& ref : inner_refs) ObjectTable::retain(slot_of(ref));
  if (!inner_actors.empty())
    inner.actors = std::make_unique<std::vector<ActorId>>(inner_actors.begin(), inner_actors.end());
  traffic_.retain_actors(inner_actors);
  ObjectSlot& slot = traffic_.table().mint();
  if (size <= kInlineValue || !traffic_.arena().has()) {
    if (parts.size() == 1) {
      traffic_.table().fulfil(slot, parts[0], std::move(inner));
      return slot.handle();
    }
    std::vector<std::byte> value;
    value.reserve(size);
    for (const internal::Bytes& part : parts) value.insert(value.end(), part.begin(), part.end());
    traffic_.table().fulfil(slot, value, std::move(inner));
    return slot.handle();
  }
  auto stored = traffic_.arena().store(slot.id, parts);
  if (!stored.ok()) {
    ErrorRecord error = record_of(stored.status());
    if (stored.status().code() == absl::StatusCode::kResourceExhausted) error.kind = ErrorKind::kOutOfMemory;
    traffic_.table().fail(slot, error);
    traffic_.table().release(slot);
    traffic_.streams().let_go_of(std::move(inner));
    traffic_.finish_turn();
    throw_error(std::move(error));
  }
  traffic_.table().fulfil_in_arena(slot, *stored, std::move(inner));
  traffic_.references().sealed(slot);
  traffic_.finish_turn();
  return slot.handle();
}

// ---- handles ----

ObjectHandle ClusterBackend::adopt(const ObjectId& id) {
  Hold hold = enter();
  const bool known = traffic_.table().find(id) != nullptr;
  ObjectSlot& slot = traffic_.table().adopt(id);
  if (!known) traffic_.references().hold(slot);
  return slot.handle();
}

void ClusterBackend::retain(const ObjectHandle& object) {
  if (!fork_.in_child()) ObjectTable::retain(slot_of(object));
}

void ClusterBackend::release(const ObjectHandle& object) {
  if (fork_.in_child()) return;
  if (traffic_.table().release(slot_of(object))) traffic_.finish_turn_soon();
}

// A handle must not be looked up by its receiver before the control store has heard of its actor.
void ClusterBackend::await_registered(std::span<const ActorId> actors) {
  if (actors.empty()) return;
  const auto known = [&] {
    return std::none_of(actors.begin(), actors.end(), [&](const ActorId& actor) {
      const ActorClient* client = traffic_.actors().find(actor);
      return client && !client->registered() && !client->dead();
    });
  };
  const base::TimePoint deadline = traffic_.clock().now() + kControlTimeout;
  if (in_call() ? drive_nested(nullptr, known, deadline) : drive(known, deadline, kNoPeer)) return;
  throw_error(error_record(ErrorKind::kUnavailable,
                           "the cluster has not taken up an actor whose handle is to be passed on",
                           "`rayo status` shows whether the head answers"));
}

void ClusterBackend::settle(std::span<const ActorId> actors) {
  Hold hold = enter();
  await_registered(actors);
}

void ClusterBackend::retain_actor(const ActorId& actor) {
  if (fork_.in_child()) return;
  Hold hold(traffic_.engine().baton());
  traffic_.references().retain_actor(actor);
}

void ClusterBackend::release_actor(const ActorId& actor) {
  if (fork_.in_child()) return;
  Hold hold(traffic_.engine().baton());
  if (closed_) return;
  traffic_.let_go_of_actor(actor);
  traffic_.finish_turn();
}

// ---- the control store ----

proto::ToWorker ClusterBackend::ask(const proto::ToRaylet& message, base::Duration timeout, std::span<const int> fds) {
  traffic_.finish_turn();
  RayletLink::Answer answer = traffic_.raylet().ask(message, timeout, fds);
  if (!answer.ok()) throw_error(record_of(answer.status()));
  if (const proto::Failure* failure = failure_in(*answer)) throw_error(record_of(*failure));
  return std::move(*answer);
}

proto::ActorSpec ClusterBackend::spec_of(const ActorOptions& options, std::string_view class_name,
                                         const CallRequest& constructor) {
  proto::ActorSpec spec;
  set_id(spec.mutable_job(), constructor.program ? constructor.program : self_.context.job);
  set_id(spec.mutable_creator(), self_.context.process);
  set_id(spec.mutable_package(), self_.package);
  spec.set_name(options.name);
  spec.set_namespace_(options.name_space.empty() ? self_.context.name_space : options.name_space);
  spec.set_class_name(std::string(class_name));
  spec.set_constructor(constructor.function);
  spec.set_arguments(constructor.arguments.data(), constructor.arguments.size());
  for (const ObjectHandle& ref : constructor.refs) {
    traffic_.share(slot_of(ref));
    set_id(spec.add_argument_refs(), ref.id);
  }
  for (const ObjectHandle& ref : constructor.inner_refs) traffic_.share(slot_of(ref));
  *spec.mutable_demand() = demand_of(options);
  spec.set_max_restarts(options.max_restarts);
  spec.set_max_call_retries(options.max_call_retries);
  spec.set_max_pending_calls(options.max_pending_calls);
  spec.set_max_concurrency(static_cast<uint32_t>(options.max_concurrency));
  spec.set_stack_size(static_cast<uint64_t>(options.stack_size));
  spec.set_detached(options.lifetime == Lifetime::kDetached);
  spec.set_start_timeout_ms(options.start_timeout.count());
  for (const auto& [key, value] : options.environment) spec.add_environment(base::cat(key, "=", value));
  if (!spec.detached()) return spec;
  if (auto refused = carry_arguments(constructor.refs, spec)) throw_error(*std::move(refused));
  return spec;
}

ActorId ClusterBackend::spawn(const ActorOptions& options, std::string_view class_name,
                              const CallRequest& constructor) {
  check_size(constructor);
  check_options(options);
  Hold hold = enter();
  await_registered(constructor.inner_actors);
  const auto minted = base::random_id<ActorId>();
  proto::ToRaylet message;
  *message.mutable_create_actor()->mutable_spec() = spec_of(options, class_name, constructor);
  set_id(message.mutable_create_actor()->mutable_spec()->mutable_actor(), minted);
  message.mutable_create_actor()->set_get_if_exists(options.get_if_exists);
  traffic_.references().flush();
  Inner named;
  named.refs.assign(constructor.refs.begin(), constructor.refs.end());
  named.refs.insert(named.refs.end(), constructor.inner_refs.begin(), constructor.inner_refs.end());
  for (const ObjectHandle& ref : named.refs) ObjectTable::retain(slot_of(ref));
  named.actors =
      std::make_unique<std::vector<ActorId>>(constructor.inner_actors.begin(), constructor.inner_actors.end());
  traffic_.retain_actors(constructor.inner_actors);
  ActorClient& client = traffic_.actors().create(minted, class_name);
  client.keep_arguments(std::move(named), options.max_restarts != 0);
  client.limit_pending(options.max_pending_calls);
  traffic_.references().retain_actor(minted);
  if (options.name.empty()) {
    // Nobody else can refuse it a name: what goes wrong is told by its calls.
    client.set_registered(false);
    traffic_.raylet().request(message, [this, minted](RayletLink::Answer answer, std::vector<base::Fd>&) {
      ActorClient* created = traffic_.actors().find(minted);
      if (!created) return;
      created->set_registered(true);
      if (!answer.ok()) return created->on_failure(record_of(answer.status()));
      if (const proto::Failure* failure = failure_in(*answer)) return created->on_failure(record_of(*failure));
      created->on_info(answer->actor_reply().actor());  // who creates also watches
    });
    traffic_.finish_turn();
    return minted;
  }
  ActorId actor = minted;
  try {
    actor = id_of<ActorId>(ask(message, kControlTimeout).actor_reply().actor().actor());
  } catch (...) {
    traffic_.references().release_actor(minted);
    traffic_.actors().forget(minted);
    throw;
  }
  if (actor != minted) {
    traffic_.references().release_actor(minted);
    traffic_.actors().forget(minted);
    traffic_.references().retain_actor(actor);
    traffic_.actors().of(actor);
  } else {
    traffic_.watch_actor(actor);
  }
  traffic_.finish_turn();
  return actor;
}

void ClusterBackend::kill_actor(const ActorId& actor, KillOptions options) {
  Hold hold = enter();
  proto::ToRaylet message;
  proto::KillActor& request = *message.mutable_kill_actor();
  set_id(request.mutable_actor(), actor);
  ActorClient& client = traffic_.actors().of(actor);
  const uint32_t lives = client.lives_ended();
  if (!options.no_restart) {
    request.set_may_restart(true);
    request.set_incarnation(client.incarnation());
  }
  const proto::ToWorker answer = ask(message, kControlTimeout);
  const proto::ActorInfo& known = answer.actor_reply().actor();
  const bool another = client.incarnation() != 0 && known.incarnation() > client.incarnation();
  const bool lives_now = known.state() == proto::STARTING || known.state() == proto::ALIVE;
  if (!options.no_restart && known.state() != proto::DEAD && (another || !lives_now))
    return;  // that life is over already
  // The raylet has asked its process to end; a call made after kill() must not meet it alive.
  auto ended = [&] { return client.dead() || client.lives_ended() != lives; };
  (void)drive(ended, traffic_.clock().now() + kKillTimeout, kNoPeer);
}

internal::MadeStream ClusterBackend::make_stream(const StreamOptions& options) {
  const ContextRecord here = context();
  return worker::make_stream(*this, options,
                             {.node = here.node,
                              .process = here.process,
                              .actor = here.actor,
                              .incarnation = here.incarnation,
                              .window = options.window,
                              .window_bytes = options.window_bytes});
}

std::unique_ptr<internal::StreamReading> ClusterBackend::open_stream(const internal::StreamAddress& address) {
  return worker::open_stream(*this, address);
}

}  // namespace rayo::worker
