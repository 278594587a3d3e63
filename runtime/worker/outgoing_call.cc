#include "runtime/worker/outgoing_call.h"

#include <algorithm>

#include "runtime/base/text.h"
#include "runtime/worker/call_body.h"
#include "runtime/worker/failure.h"

namespace rayo::worker {

namespace {
// Of the 16 MiB of a call's frame: its arguments with the ids that it names, and what travels along of the values of its
// refs. The rest is for the heads of sections.
constexpr size_t kArgumentsTogether = 12u << 20;
constexpr size_t kInlinedTogether = 3u << 20;
static_assert(kArgumentsTogether + kInlinedTogether + (64u << 10) <= rpc::kMaxFrameBody);

// What the value of an argument takes there: a head and up to a word of padding, itself, the ids of the refs in it.
size_t carried(const ObjectSlot& argument) {
  return 16 + argument.size + argument.inner_refs().size() * sizeof(ObjectId);
}

// `room` is what is left of kInlinedTogether, and is less after it.
bool travels_in_the_frame(const ObjectSlot& argument, size_t& room) {
  if (!argument.ready() || argument.in_arena || argument.size > kInlineArgument || carried(argument) > room)
    return false;
  room -= carried(argument);
  return true;
}
}  // namespace

std::optional<ErrorRecord> too_large(const internal::CallRequest& request) {
  const size_t refs = request.refs.size() + request.inner_refs.size(), actors = request.inner_actors.size();
  const size_t bytes = request.arguments.size() + refs * sizeof(ObjectId) + actors * sizeof(ActorId);
  if (bytes <= kArgumentsTogether) return std::nullopt;
  if (refs + actors == 0)
    return error_record(ErrorKind::kInvalid,
                        base::cat("the arguments of a call have ", bytes, " bytes; it carries ", kArgumentsTogether),
                        "rayo::put the large value and pass the ref");
  return error_record(ErrorKind::kInvalid,
                      base::cat("the arguments of a call have ", bytes, " bytes with the ids of ", refs, " refs and ",
                                actors, " handles; it carries ", kArgumentsTogether),
                      "rayo::put the values that hold them, in several, and pass the refs of those");
}

OutgoingCall::OutgoingCall(ObjectTable& table, CallWire& wire, ObjectSlot& result, const internal::CallRequest& request)
    : table(table),
      wire(wire),
      result(result),
      function(request.function),
      which(request.which),
      name(request.name),
      arguments(request.arguments.begin(), request.arguments.end()),
      refs(request.refs.begin(), request.refs.end()),
      argument_count(request.refs.size()),
      actors(request.inner_actors.begin(), request.inner_actors.end()) {
  refs.insert(refs.end(), request.inner_refs.begin(), request.inner_refs.end());
  for (const internal::ObjectHandle& ref : refs) ObjectTable::retain(slot_of(ref));
  ObjectTable::retain(result);  // it may fail (cancelled) and be let go of while this waits
  wire.retain_actors(actors);
}

OutgoingCall::~OutgoingCall() {
  for (Hook& hook : hooks_)
    if (hook.slot) table.forget(*hook.slot, hook);
  for (const internal::ObjectHandle& ref : within_) table.release(slot_of(ref));
  for (const internal::ObjectHandle& ref : refs) table.release(slot_of(ref));
  table.release(result);
  if (!actors.empty()) wire.release_actors(actors);
}

void OutgoingCall::await_arguments(std::function<void()> changed) {
  changed_ = std::move(changed);
  hooks_.resize(argument_count);
  for (size_t i = 0; i < argument_count; ++i) {
    ObjectSlot& slot = slot_of(refs[i]);
    if (slot.ready() || !slot.call) continue;  // a foreign one that nobody here asked for: the callee resolves it
    Hook& hook = hooks_[i];
    hook.ready = &on_ready;
    hook.call = this;
    hook.slot = &slot;
    table.await(slot, hook);
    ++unready_;
  }
}

void OutgoingCall::on_ready(ReadyHook& base) {
  auto& hook = static_cast<Hook&>(base);
  OutgoingCall& call = *hook.call;
  hook.slot = nullptr;
  if (--call.unready_ == 0) {
    auto changed = call.changed_;  // the call may be gone when it returns
    changed();
  }
}

const ErrorRecord* OutgoingCall::failed_argument() const {
  for (size_t i = 0; i < argument_count; ++i)
    if (const ObjectSlot& slot = slot_of(refs[i]); slot.ready() && slot.error) return slot.error.get();
  return nullptr;
}

bool OutgoingCall::self_contained() const {
  size_t room = kInlinedTogether;
  return std::all_of(refs.begin(), refs.begin() + static_cast<ptrdiff_t>(argument_count),
                     [&room](const internal::ObjectHandle& ref) { return travels_in_the_frame(slot_of(ref), room); });
}

bool OutgoingCall::send(PeerId peer, rpc::FrameHeader header, bool keep) {
  header.kind = rpc::FrameKind::kCall;
  header.call_id = result.id.counter;
  header.function = function;
  std::vector<ObjectId> ids;
  std::vector<InlineValue> values;
  std::vector<internal::ObjectHandle> within;  // refs inside the values that travel in the frame
  size_t room = kInlinedTogether;
  for (size_t i = 0; i < refs.size(); ++i) {
    ObjectSlot& slot = slot_of(refs[i]);
    const bool inlined = i < argument_count && travels_in_the_frame(slot, room);
    ids.push_back(inlined ? ObjectId{} : slot.id);
    if (!inlined) {
      wire.share(slot);
      continue;
    }
    values.push_back({static_cast<uint32_t>(i), slot.view().bytes});
    const auto inner = slot.inner_refs();
    within.insert(within.end(), inner.begin(), inner.end());
  }
  for (const internal::ObjectHandle& ref : within) {
    wire.share(slot_of(ref));
    ids.push_back(ref.id);
  }
  BodyWriter body;
  body.refs(ids, static_cast<uint32_t>(argument_count));
  body.actors(actors);
  body.values(values);
  header.flags |= body.flags();
  const Bytes parts[] = {body.bytes(), arguments};
  if (!wire.send(peer, header, parts)) return false;
  for (const internal::ObjectHandle& ref : within) ObjectTable::retain(slot_of(ref));
  ++times_sent;
  if (keep) {
    within_ = std::move(within);
    return true;
  }
  // From here to the reply the result's slot counts them: who sends a ref keeps it until the reply.
  if (!refs.empty() || !actors.empty()) {
    auto named = std::make_unique<Inner>();
    named->refs = std::exchange(refs, {});
    named->refs.insert(named->refs.end(), within.begin(), within.end());
    if (!actors.empty()) named->actors = std::make_unique<std::vector<ActorId>>(std::exchange(actors, {}));
    result.inner = std::move(named);
  }
  return true;
}

void OutgoingCall::take_back() {
  result.owner = nullptr;
  for (const internal::ObjectHandle& ref : std::exchange(within_, {})) table.release(slot_of(ref));
}

}  // namespace rayo::worker
