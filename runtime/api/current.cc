#include "runtime/api/current.h"

#include <atomic>
#include <cstring>
#include <pthread.h>

#include <rayo/actor.h>
#include <rayo/internal/entry.h>
#include <rayo/object.h>
#include <rayo/runtime.h>
#include <rayo/stream.h>

#include "runtime/base/text.h"
#include "runtime/base/units.h"

namespace rayo::api {
namespace {

constinit std::atomic<internal::Backend*> g_current = nullptr;
constinit std::atomic<bool> g_forked = false;

void forget_in_child() {
  if (g_current.exchange(nullptr) != nullptr) g_forked = true;
}

}  // namespace

internal::Backend* current_backend() { return g_current.load(std::memory_order_acquire); }

void set_current_backend(internal::Backend* backend) {
  static const int once = pthread_atfork(nullptr, nullptr, forget_in_child);
  static_cast<void>(once);
  g_current.store(backend, std::memory_order_release);
}

}  // namespace rayo::api

namespace rayo {
inline namespace v0 {
namespace internal {

Backend& backend() {
  if (Backend* current = api::current_backend()) [[likely]]
    return *current;
  if (api::g_forked) {
    throw Unavailable({.kind = ErrorKind::kUnavailable,
                       .text = "Rayo cannot be used in a child of fork()",
                       .next_step = "start another program with exec, or call rayo::remote in the parent"});
  }
  throw Unavailable({.kind = ErrorKind::kUnavailable,
                     .text = "Rayo is not running in this process",
                     .next_step = "call rayo::init(argc, argv) at the beginning of main"});
}

// ---- refs ----

void CountedRef::retain() const {
  if (backend_ == api::current_backend()) backend_->retain(handle_);
}

void CountedRef::release() const {
  if (backend_ == api::current_backend()) backend_->release(handle_);
}

void CountedRef::refuse() const {
  if (backend_ == nullptr) {
    throw Invalid({.kind = ErrorKind::kInvalid,
                   .text = "an empty ObjectRef was used: it refers to nothing",
                   .next_step = "use the ref that call, remote or put answered"});
  }
  throw Unavailable({.kind = ErrorKind::kUnavailable,
                     .text = "an ObjectRef was used after its session had ended",
                     .next_step = "get values before rayo::shutdown()"});
}

// The seam counts a negative span as for ever.
std::chrono::nanoseconds seam_timeout(std::chrono::nanoseconds timeout) {
  if (timeout == kForever) return std::chrono::nanoseconds(-1);
  return std::max(timeout, std::chrono::nanoseconds(0));
}

bool get_object(const CountedRef& ref, std::chrono::nanoseconds timeout, ValueReader read, void* context) {
  Backend& current = backend();
  return current.get(ref.handle(current), seam_timeout(timeout), read, context);
}

bool is_ready(const CountedRef& ref) {
  Backend& current = backend();
  return current.ready(ref.handle(current));
}

void throw_timeout(const ObjectId& object, std::chrono::nanoseconds timeout) {
  throw Timeout(
      {.kind = ErrorKind::kTimeout,
       .text = base::cat("get of object ", object.hex(), ": not there after ", base::format_duration(timeout)),
       .next_step = "`rayo why` with its id says what it waits for; or give get() more time"});
}

std::vector<bool> wait_objects(const std::vector<CountedRef>& objects, size_t count, std::chrono::nanoseconds timeout) {
  Backend& current = backend();
  std::vector<ObjectHandle> handles;
  handles.reserve(objects.size());
  for (const CountedRef& object : objects) handles.push_back(object.handle(current));
  std::vector<bool> ready(objects.size());
  if (!handles.empty()) current.wait(handles, std::min(count, handles.size()), seam_timeout(timeout), ready);
  return ready;
}

CountedRef put_object(const Encoder& encoded) {
  Backend& current = backend();
  const Bytes value = encoded.view();
  return CountedRef(current, current.put({&value, 1}, encoded.inner_refs(), encoded.inner_actors()));
}

void cancel_object(const CountedRef& ref) {
  Backend& current = backend();
  current.cancel(ref.handle(current), {});
}

void encode_ref(Encoder& out, const CountedRef& ref) {
  if (!ref) return out.null();
  const ObjectHandle& handle = ref.handle(backend());
  std::byte id[sizeof(ObjectId)];
  std::memcpy(id, &handle.id, sizeof id);
  out.tag(kInnerRefTag);
  out.bytes(id);
  out.inner_ref(handle);
}

CountedRef decode_ref(Decoder& in) {
  if (in.take_null()) return {};
  if (!in.take_tag(kInnerRefTag)) in.mismatch("an ObjectRef");
  const auto bytes = in.bytes();
  ObjectId id;
  if (bytes.size() != sizeof id) in.mismatch("the 24 bytes of an object's id");
  std::memcpy(&id, bytes.data(), sizeof id);
  Backend& current = backend();
  return CountedRef(current, current.adopt(id));
}

// ---- actors ----

void CountedActor::retain() const {
  if (backend_ == api::current_backend()) backend_->retain_actor(id_);
}

void CountedActor::release() const {
  if (backend_ == api::current_backend()) backend_->release_actor(id_);
}

void CountedActor::refuse() const {
  if (backend_ == nullptr) {
    throw Invalid({.kind = ErrorKind::kInvalid,
                   .text = "an empty ActorHandle was used: it names no actor",
                   .next_step = "use the handle that spawn or actor answered"});
  }
  throw Unavailable({.kind = ErrorKind::kUnavailable,
                     .text = "an ActorHandle was used after its session had ended",
                     .next_step = "spawn the actor again after rayo::init"});
}

void encode_actor(Encoder& out, const CountedActor& actor) {
  if (!actor) return out.null();
  const ActorId& id = actor.id(backend());
  std::byte bytes[sizeof(ActorId)];
  std::memcpy(bytes, &id, sizeof bytes);
  out.tag(kActorTag);
  out.bytes(bytes);
  out.inner_actor(id);
}

CountedActor decode_actor(Decoder& in) {
  if (in.take_null()) return {};
  if (!in.take_tag(kActorTag)) in.mismatch("an ActorHandle");
  const auto bytes = in.bytes();
  ActorId id;
  if (bytes.size() != sizeof id) in.mismatch("the 16 bytes of an actor's id");
  std::memcpy(&id, bytes.data(), sizeof id);
  Backend& current = backend();
  current.retain_actor(id);
  return CountedActor(current, id);
}

CountedActor find_named_actor(std::string_view name, std::string_view name_space, std::string_view class_name) {
  Backend& current = backend();
  ActorRecord record = current.find_actor(name, name_space);
  CountedActor found(current, record.id);
  if (!class_name.empty() && record.constructor == kPythonConstructor) {
    throw TypeMismatch(
        {.kind = ErrorKind::kTypeMismatch,
         .text = base::cat("actor '", name, "' is written in Python: it is no '", class_name, "' of C++"),
         .next_step = base::cat("call it by the names of its methods: rayo::actor(\"", name, "\")")});
  }
  if (!class_name.empty() && record.class_name != class_name) {
    throw TypeMismatch(
        {.kind = ErrorKind::kTypeMismatch,
         .text = base::cat("actor '", name, "' is a '", record.class_name, "', not a '", class_name, "'"),
         .next_step = base::cat("ask for rayo::actor<", record.class_name, ">(\"", name, "\")")});
  }
  return found;
}

// ---- the callee ----

void finish_result(Invocation& call, const Encoder& encoded) {
  const auto bytes = encoded.view();
  call.result->insert(call.result->end(), bytes.begin(), bytes.end());
  if (!encoded.inner_actors().empty()) backend().settle(encoded.inner_actors());
  for (const ObjectHandle& ref : encoded.inner_refs()) {
    backend().retain(ref);
    call.result_refs->push_back(ref);
  }
  for (const ActorId& actor : encoded.inner_actors()) {
    backend().retain_actor(actor);
    call.result_actors->push_back(actor);
  }
}

const ValueView& argument_value(Decoder& in, Invocation& call) {
  const uint64_t index = in.unsigned_integer();
  if (index >= call.refs.size()) in.mismatch("the index of a ref");
  const ValueView& value = call.refs[index];
  if (value.error == nullptr) return value;
  call.argument = 0;  // the error is another call's
  throw_error(*value.error);
}

// ---- code that blocks ----

void run_blocking(void (*run)(void* context), void* context) {
  Backend* current = api::current_backend();
  if (current == nullptr) return run(context);
  current->run_blocking(run, context);
}

}  // namespace internal
}  // namespace v0
}  // namespace rayo
