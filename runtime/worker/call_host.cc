#include "runtime/worker/call_host.h"

#include <algorithm>
#include <mutex>
#include <unistd.h>
#include <utility>

#include "runtime/base/ids.h"
#include "runtime/base/invoke.h"
#include "runtime/base/text.h"
#include "runtime/worker/demand.h"
#include "runtime/worker/failure.h"
#include "runtime/worker/stack_overflow.h"

namespace rayo::worker {

using Confirm = References::Confirm;

namespace {
// A function whose last run took longer has the service thread stand in during the next.
constexpr base::Duration kLong = std::chrono::microseconds(20);
// Short functions are timed in one run of so many: a clock costs as much as a small call.
constexpr uint32_t kTimedRuns = 32;

std::string unknown_function(uint64_t id) {
  return base::cat("this program has no function with the id ", id, " that was called");
}

internal::ValueView carried_value(const proto::ActorSpec& spec, size_t index) {
  return {std::as_bytes(std::span(spec.argument_values(static_cast<int>(index))))};
}

rpc::FrameHeader reply_header(const IncomingCall& call) {
  rpc::FrameHeader header;
  header.kind = rpc::FrameKind::kReply;
  header.call_id = call.header.call_id;
  header.ran_us = call.ran_us;
  return header;
}

ErrorRecord too_large(size_t bytes, size_t refs) {
  return error_record(
      ErrorKind::kOutOfMemory,
      base::cat("the result has ", bytes, " bytes", refs == 0 ? "" : base::cat(" and ", refs, " refs in it"),
                "; a reply holds ", kMaxResult, " with the ids of refs"),
      "return a ref of it (rayo::put), or parts of it by themselves");
}
}  // namespace

CallHost::CallHost(Wires wires) : wires_(std::move(wires)) {}

CallHost::~CallHost() = default;

CallHost::Method& CallHost::method(uint64_t id) {
  if (last_method_ && last_method_id_ == id) return *last_method_;
  auto [at, fresh] = methods_.try_emplace(id);
  if (fresh) at->second.function = internal::find_function(id);
  last_method_ = &at->second;  // stays where it is
  last_method_id_ = id;
  return at->second;
}

// ---- what comes in ----

internal::ObjectHandle CallHost::fetch(const ObjectId& id, size_t& unready, PeerId peer) {
  const bool known = wires_.table.find(id) != nullptr;
  ObjectSlot& slot = wires_.table.adopt(id);
  if (!known) wires_.references.hold(slot);
  if (!slot.own) wires_.references.resolve(slot);
  if (!slot.ready()) {
    auto* hook = new Hook;
    hook->ready = &on_ready;
    hook->host = this;
    hook->unready = &unready;
    hook->peer = peer;
    wires_.table.await(slot, *hook);
    ++unready;
  }
  return slot.handle();
}

void CallHost::on_ready(ReadyHook& base) {
  std::unique_ptr<Hook> hook(static_cast<Hook*>(&base));
  if (--*hook->unready == 0 && hook->peer != kNoPeer) hook->host->mailbox_.unblock(hook->peer);
}

std::unique_ptr<CallRefs> CallHost::take_refs(PeerId peer, const BodyView& view) {
  auto refs = std::make_unique<CallRefs>();
  std::vector<bool> inlined(view.arguments);
  for (const InlineValue& value : view.values) inlined[value.index] = true;
  refs->arguments.resize(view.arguments);
  for (size_t i = 0; i < view.refs.size(); ++i) {
    const ObjectId& id = view.refs[i];
    if (i < view.arguments && !inlined[i]) refs->arguments[i] = fetch(id, refs->unready, peer);
    if (id) refs->named.push_back(id);
  }
  refs->actors = view.actors;
  return refs;
}

void CallHost::on_call(PeerId peer, const rpc::FrameHeader& header, ByteView body) {
  std::unique_ptr<CallRefs> refs;
  if (header.flags & kSectionFlags) {
    auto view = read_body(header.flags, body);
    if (!view) {
      IncomingCall broken{.peer = peer, .header = header};
      return reply_error(broken,
                         error_record(ErrorKind::kInternal, "a call arrived whose sections do not fit its body"));
    }
    refs = take_refs(peer, *view);
  }
  mailbox_.push(peer, header, body, std::move(refs));
}

void CallHost::on_refs_taken(PeerId peer, uint64_t call_id) {
  auto given = given_.extract({peer, call_id});
  if (given) let_go_of(given.mapped().refs, *given.mapped().actors);
}

void CallHost::let_go_of(const std::vector<internal::ObjectHandle>& refs, const std::vector<ActorId>& actors) {
  for (const internal::ObjectHandle& ref : refs) wires_.table.release(slot_of(ref));
  wires_.references.release_actors(actors);
}

void CallHost::on_cancel(PeerId peer, uint64_t call_id, uint64_t how) {
  if (Execution* execution = find(peer, call_id)) {
    if (execution->finished) return;  // who answers for it has let go of it
    if (how & rpc::kCancelForce && execution->running->task) ::_exit(1);
    execution->cancel(how & rpc::kCancelRecursive);
    if (told_cancels_) told_cancels_(*execution);
    return;
  }
  if (mailbox_.holds(peer, call_id)) not_to_start_.insert({peer, call_id});
}

// The last one first: the caller puts each before the others that wait there.
void CallHost::on_take_back(PeerId peer, uint64_t keep) {
  std::vector<IncomingCall> calls = mailbox_.take_back(peer, keep);
  for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
    if (call->refs)
      for (const internal::ObjectHandle& ref : call->refs->arguments)
        if (ref.slot) wires_.table.release(slot_of(ref));
    not_to_start_.erase({peer, call->header.call_id});
    rpc::FrameHeader header = reply_header(*call);
    header.flags = rpc::kFlagReturned;
    wires_.send(peer, header, {});
  }
}

CallHost::Execution* CallHost::find(PeerId peer, uint64_t call_id) {
  const auto is_it = [&](const Execution& each) {
    return each.running && each.running->peer == peer && each.running->call_id == call_id;
  };
  if (is_it(main_)) return &main_;
  auto found = std::find_if(concurrent_.begin(), concurrent_.end(), is_it);
  return found == concurrent_.end() ? nullptr : &*found;
}

ObjectId CallHost::call_of(PeerId peer, uint64_t call_id) {
  if (peer != last_caller_) {
    auto known = callers_.find(peer);
    if (known == callers_.end()) {
      const proto::ProcessAddress caller = wires_.caller(peer);
      const ObjectId id{base::short_id(id_of<NodeId>(caller.node())),
                        base::short_id(id_of<ProcessId>(caller.process())), 0};
      if (!id) return {0, 0, call_id};
      known = callers_.emplace(peer, id).first;
    }
    last_caller_ = peer;
    last_caller_id_ = known->second;
  }
  return {last_caller_id_.home, last_caller_id_.process, call_id};
}

void CallHost::on_peer_closed(PeerId peer) {
  callers_.erase(peer);
  if (last_caller_ == peer) last_caller_ = kNoPeer;
  auto first = given_.lower_bound({peer, 0});
  while (first != given_.end() && first->first.first == peer) {
    const uint64_t call_id = first->first.second;
    ++first;
    on_refs_taken(peer, call_id);
  }
}

bool CallHost::quiet(PeerId peer) const {
  auto given = given_.lower_bound({peer, 0});
  const auto serves = [peer](const Execution& execution) {
    return execution.running && execution.running->peer == peer;
  };
  return (given == given_.end() || given->first.first != peer) && !serves(main_) &&
         std::none_of(concurrent_.begin(), concurrent_.end(), serves) && !mailbox_.holds(peer);
}

void CallHost::on_host_actor(const proto::HostActor& request) {
  hosted_.actor = id_of<ActorId>(request.spec().actor());
  hosted_.class_name = request.spec().class_name();
  hosted_.incarnation = request.incarnation();
  hosted_.lease = id_of<LeaseId>(request.lease());
  hosted_.devices.assign(request.devices().begin(), request.devices().end());
  hosted_.resources = amounts_of(request.spec().demand().resources());
  hosted_.actor_name = request.spec().name();
  if (request.spec().max_concurrency() > 1) {
    most_concurrent_ = request.spec().max_concurrency();
    if (request.spec().stack_size() != 0)
      fibers_ = std::make_unique<CallFibers>(request.spec().stack_size(), base::system_clock());
  }
  starting_.emplace();
  starting_->spec = request.spec();
  starting_->refs.reserve(static_cast<size_t>(request.spec().argument_refs_size()));
  for (int i = 0; i < request.spec().argument_refs_size(); ++i) {
    const bool here = i < request.spec().argument_values_size() && !request.spec().argument_values(i).empty();
    const ObjectId id = id_of(request.spec().argument_refs(i));
    starting_->refs.push_back(here ? internal::ObjectHandle() : fetch(id, starting_->unready, kNoPeer));
  }
}

void CallHost::on_host_tasks(const proto::HostTasks& request) {
  hosted_.tasks = true;
  hosted_.lease = id_of<LeaseId>(request.lease());
  hosted_.devices.assign(request.devices().begin(), request.devices().end());
  hosted_.resources = amounts_of(request.resources());
}

// ---- running ----

bool CallHost::run_one() {
  if (starting_) {
    if (starting_->unready != 0) return false;
    construct();
    return true;
  }
  if (fibers_) return run_fibers();
  if (most_concurrent_ > 1) return run_deferring();
  if (!open() || !mailbox_.take(main_.call)) return false;
  run(main_);
  return true;
}

bool CallHost::run_deferring() {
  if (!open() || concurrent_.size() >= most_concurrent_) return false;
  Execution& execution = concurrent_.emplace_back(*this);
  if (!mailbox_.take(execution.call)) {
    concurrent_.pop_back();
    return false;
  }
  at_ = &execution;
  run(execution);
  at_ = &main_;
  if (!execution.deferred || execution.finished) erase(execution);
  return true;
}

ObjectId CallHost::id_of_call(const Execution& execution) {
  const std::lock_guard hold(wires_.engine.baton());
  return call_of(execution.call.peer, execution.call.header.call_id);
}

void CallHost::erase(Execution& execution) {
  concurrent_.remove_if([&](const Execution& each) { return &each == &execution; });
}

// May come before the function that deferred the call has returned: then run() ends it.
void CallHost::finish(Execution& execution, const ErrorRecord* error) {
  const std::lock_guard hold(wires_.engine.baton());
  if (error) execution.error = *error;
  wires_.history.ended(execution.noted, error != nullptr, execution.better_name());
  if (execution.inside) {
    execution.finished = true;
    return;
  }
  execution.running.reset();
  reply(execution, execution.error);
  erase(execution);
  wires_.engine.flush();
  wires_.engine.wake();  // the main thread may start another
}

bool CallHost::has_fiber_work() const {
  if (open() && mailbox_.may_take() && concurrent_.size() < most_concurrent_) return true;
  return fibers_->count() != 0 && fibers_->any_due(base::system_clock().now());
}

bool CallHost::run_fibers() {
  const bool resumed = fibers_->resume_due();
  at_ = &main_;
  if (!open() || concurrent_.size() >= most_concurrent_) return resumed;
  const auto execution = concurrent_.emplace(concurrent_.end(), *this);
  if (!mailbox_.take(execution->call)) {
    concurrent_.erase(execution);
    return resumed;
  }
  fibers_->start([this, execution] {
    at_ = &*execution;
    run(*execution);
    concurrent_.erase(execution);
  });
  at_ = &main_;
  return true;
}

bool CallHost::wait_in_fiber(const std::function<bool()>& ready, base::TimePoint deadline) {
  Execution* execution = at_;
  const bool done = fibers_->wait(ready, deadline);
  at_ = execution;
  return done;
}

std::optional<ErrorRecord> CallHost::invoke(Method& method, internal::Invocation& invocation) {
  invocation.result = &at_->output.bytes;
  invocation.result_refs = &at_->output.refs;
  invocation.result_actors = &at_->output.actors;
  std::optional<ErrorRecord> error;
  IncomingCall* task = at_->running->task ? &at_->call : nullptr;
  const bool timed = task || method.maybe_long || ++method.runs % kTimedRuns == 0;
  const base::TimePoint before = timed ? base::system_clock().now() : base::TimePoint();
  if (task) wires_.engine.hand_over();  // what has ended counts, also where this one ends the process (task_window.h)
  wires_.engine.run_user(method.maybe_long, [&] { error = base::invoke(*method.function, invocation); });
  if (!timed) return error;
  const base::Duration ran = base::system_clock().now() - before;
  method.maybe_long = ran > kLong;
  if (task) task->ran_us = 1 + static_cast<uint64_t>(ran / std::chrono::microseconds(1));
  return error;
}

void CallHost::construct() {
  Starting start = *std::exchange(starting_, std::nullopt);
  if (fibers_) watch_stack_overflows(wires_.engine.doorbell().page().overflowed);
  Method& made = method(start.spec.constructor());
  std::optional<ErrorRecord> error;
  internal::Invocation invocation;
  if (!made.function) {
    error = error_record(ErrorKind::kInvalid, unknown_function(start.spec.constructor()),
                         "run the program that creates it again");
  } else {
    std::vector<internal::ValueView> values;
    for (size_t i = 0; i < start.refs.size(); ++i)
      values.push_back(start.refs[i].slot ? slot_of(start.refs[i]).view() : carried_value(start.spec, i));
    invocation.arguments = std::as_bytes(std::span(start.spec.arguments()));
    invocation.refs = values;
    at_->output.clear();
    at_->running = Running{.function = made.function};
    const auto noted = wires_.history.began({}, base::short_id(hosted_.actor), hosted_.class_name.c_str());
    error = invoke(made, invocation);
    wires_.history.ended(noted, error.has_value(), nullptr);
    at_->running.reset();
  }
  for (const internal::ObjectHandle& ref : start.refs)
    if (ref.slot) wires_.table.release(slot_of(ref));
  hosted_.self = error ? nullptr : invocation.constructed;
  hosted_.constructor = invocation.made_by ? invocation.made_by : made.function;
  wires_.references.flush();
  proto::ToRaylet message;
  proto::ActorStarted& told = *message.mutable_actor_started();
  set_id(told.mutable_actor(), hosted_.actor);
  told.set_incarnation(hosted_.incarnation);
  if (error) *told.mutable_failure() = failure_of(*error);
  wires_.raylet.push(message);
}

void CallHost::destroy_actor() {
  void* self = std::exchange(hosted_.self, nullptr);
  if (self && hosted_.constructor && hosted_.constructor->destroy)
    wires_.engine.run_user(true, [&] { hosted_.constructor->destroy(self); });
}

std::optional<ErrorRecord> CallHost::check(const IncomingCall& call, const Method& method) const {
  const rpc::FrameHeader& header = call.header;
  if (header.target != 0 &&
      (header.target != base::short_id(hosted_.actor) || header.incarnation != hosted_.incarnation))
    return error_record(ErrorKind::kActorDied, "the call was meant for an actor's earlier life, which has ended");
  if (!method.function)
    return error_record(ErrorKind::kInvalid, unknown_function(header.function),
                        "caller and callee must be the same build of the program");
  return std::nullopt;
}

void CallHost::run(Execution& execution) {
  const IncomingCall& call = execution.call;
  execution.begin();
  if (!not_to_start_.empty() && not_to_start_.erase({call.peer, call.header.call_id}))
    return reply(execution, error_record(ErrorKind::kCancelled, "the call was cancelled before it started"));
  Method& called = method(call.header.function);
  if (auto error = check(call, called)) return reply(execution, error);
  internal::Invocation& invocation = execution.invocation;
  invocation = {.self = call.header.target != 0 ? hosted_.self : nullptr,
                .arguments = call.body,
                .open = &execution,
                .made_by = hosted_.constructor};
  if (call.refs) {
    std::vector<internal::ValueView>& values = execution.values;
    values.clear();
    const BodyView view = *read_body(call.header.flags, call.body);  // checked when it came
    invocation.arguments = view.rest;
    for (const internal::ObjectHandle& ref : call.refs->arguments)
      values.push_back(ref.slot ? slot_of(ref).view() : internal::ValueView{});
    for (const InlineValue& value : view.values) values[value.index].bytes = value.bytes;
    invocation.refs = values;
  }
  execution.output.clear();
  execution.running = Running{call.peer, call.header.call_id, called.function, call.header.target == 0};
  execution.noted =
      wires_.history.began(call_of(call.peer, call.header.call_id), call.header.target, called.function->name);
  execution.inside = true;
  std::optional<ErrorRecord> error = invoke(called, invocation);
  execution.inside = false;
  if (error) {
    execution.deferred = false;
  } else if (execution.deferred) {
    if (!execution.finished) return;
    error = std::move(execution.error);
  }
  if (!execution.finished) wires_.history.ended(execution.noted, error.has_value(), execution.better_name());
  execution.running.reset();
  reply(execution, error);
}

// ---- answering ----

void CallHost::reply_error(const IncomingCall& call, const ErrorRecord& error, const Told& first, uint16_t flags) {
  rpc::FrameHeader header = reply_header(call);
  header.flags = static_cast<uint16_t>(rpc::kFlagFailure | flags);
  const std::string body = failure_of(error).SerializeAsString();
  const Bytes part = std::as_bytes(std::span(body));
  send_reply(call.peer, header, {&part, 1}, first);
}

void CallHost::answer_now(Execution& execution) {
  const std::lock_guard hold(wires_.engine.baton());
  execution.answered = true;
  // By then our raylet has told what is kept of the arguments.
  reply_value(execution, keeps_unknown_actor(execution.call) ? Confirm::kActorsToo : Confirm::kObjects, rpc::kFlagMore);
  execution.output.clear();
  wires_.engine.flush();
}

void CallHost::reply(Execution& execution, const std::optional<ErrorRecord>& error) {
  const Told told = end_arguments(execution.call);
  // Behind the answer, which waits for the raylet.
  if (execution.answered) return reply_value(execution, told.value_or(Confirm::kObjects));
  if (error) return reply_error(execution.call, *error, told);
  reply_value(execution, told);
}

CallHost::Told CallHost::end_arguments(IncomingCall& call) {
  if (!call.refs) return std::nullopt;
  for (const internal::ObjectHandle& ref : call.refs->arguments)
    if (ref.slot) wires_.table.release(slot_of(ref));
  const std::vector<ObjectId>& named = call.refs->named;
  const bool keeps_refs = std::any_of(named.begin(), named.end(), [this](const ObjectId& id) {
    const ObjectSlot* slot = wires_.table.find(id);
    return slot && slot->held();
  });
  const bool keeps_actors = keeps_unknown_actor(call);
  call.refs.reset();
  if (keeps_actors) return Confirm::kActorsToo;
  return keeps_refs ? Told(Confirm::kObjects) : std::nullopt;
}

bool CallHost::keeps_unknown_actor(const IncomingCall& call) const {
  if (!call.refs || wires_.references.actors_known()) return false;
  // One may have been inside a value, or is inside one that was made of it.
  if (!call.refs->named.empty() || !call.refs->arguments.empty() || wires_.references.unknown_in_values()) return true;
  const std::vector<ActorId>& named = call.refs->actors;
  return std::any_of(named.begin(), named.end(),
                     [&](const ActorId& actor) { return wires_.references.actor_handles(actor) != 0; });
}

void CallHost::reply_value(Execution& execution, const Told& first, uint16_t flags) {
  const IncomingCall& call = execution.call;
  Output& output = execution.output;
  rpc::FrameHeader header = reply_header(call);
  header.flags = flags;
  std::optional<ErrorRecord> unsealed;
  if (output.bytes.size() > kInlineValue && output.bare() && !execution.answered) {
    unsealed = seal(execution);
    if (!unsealed) {
      header.flags = rpc::kFlagInArena;
      const auto size = static_cast<uint64_t>(output.bytes.size());
      const Bytes part = std::as_bytes(std::span(&size, 1));
      return send_reply(call.peer, header, {&part, 1}, first);
    }
  }
  if (output.size() > kMaxResult) {
    reply_error(call, unsealed ? *unsealed : too_large(output.bytes.size(), output.refs.size()), first, flags);
    return let_go_of(output.refs, output.actors);
  }
  if (!output.bare()) return reply_with_refs(execution, header, first);
  const Bytes part = output.bytes;
  send_reply(call.peer, header, {&part, 1}, first);
}

std::optional<ErrorRecord> CallHost::seal(const Execution& execution) {
  const Bytes bytes = execution.output.bytes;
  const proto::ProcessAddress caller = wires_.caller(execution.call.peer);
  const auto node = id_of<NodeId>(caller.node());
  if (!wires_.arena.has() || !node) return too_large(bytes.size(), 0);
  const ObjectId id{base::short_id(node), base::short_id(id_of<ProcessId>(caller.process())),
                    execution.call.header.call_id};
  auto stored = wires_.arena.store(id, {&bytes, 1});
  if (stored.ok()) return std::nullopt;
  ErrorRecord error = record_of(stored.status());
  error.kind = ErrorKind::kOutOfMemory;
  return error;
}

void CallHost::reply_with_refs(Execution& execution, rpc::FrameHeader header, const Told& first) {
  Output& output = execution.output;
  std::vector<ObjectId> ids;
  for (const internal::ObjectHandle& ref : output.refs) {
    wires_.references.share(slot_of(ref));
    ids.push_back(ref.id);
  }
  BodyWriter sections;
  sections.refs(ids, 0);
  sections.actors(output.actors);
  header.flags |= sections.flags();
  const PeerId peer = execution.call.peer;
  Inner& given = given_[{peer, header.call_id}];
  given.refs = std::exchange(output.refs, {});
  given.actors = std::make_unique<std::vector<ActorId>>(std::exchange(output.actors, {}));
  const Bytes parts[] = {sections.bytes(), output.bytes};
  send_reply(peer, header, parts, first.value_or(Confirm::kObjects));
}

void CallHost::send_reply(PeerId peer, const rpc::FrameHeader& header, std::span<const Bytes> parts,
                          const Told& first) {
  if (!first) return void(wires_.send(peer, header, parts));
  std::vector<std::byte> body;
  for (const Bytes& part : parts) body.insert(body.end(), part.begin(), part.end());
  ++unconfirmed_;
  wires_.references.flush_and_confirm(*first, [this, peer, header, body = std::move(body)] {
    --unconfirmed_;
    const Bytes part = body;
    if (!wires_.send(peer, header, {&part, 1})) on_refs_taken(peer, header.call_id);  // nobody will say so
    wires_.engine.flush();
  });
}

}  // namespace rayo::worker
