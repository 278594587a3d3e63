// The seam between the public templates and what runs them: a cluster's worker (runtime/worker) or everything
// in this process (init({.in_process = true})). Encoded bytes and ids cross it, never types. Not for users.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <rayo/error.h>
#include <rayo/id.h>
#include <rayo/options.h>

#pragma GCC visibility push(default)  // a library opened at run time uses the program's
namespace rayo {
inline namespace v0 {

struct StreamOptions;

namespace internal {

using Bytes = std::span<const std::byte>;
using Clock = std::chrono::steady_clock;

// A counted handle of an object. `slot` is the backend's own record of it, so that nothing is looked up on
// the hot path.
struct ObjectHandle {
  ObjectId id;
  void* slot = nullptr;
};

// An encoded value, or the error that stands in its place. Valid only while the call that shows it runs.
struct ValueView {
  Bytes bytes;
  const ErrorRecord* error = nullptr;
};

// A function to call with its arguments: one CBOR array, an item an argument. An argument that is itself an
// ObjectRef is CBOR tag kRefTag over its index in `refs`: the backend waits for it, and the callee finds its
// value in Invocation::refs. Refs and actor handles inside values are kept alive until the reply says who
// still holds them.
struct CallRequest {
  uint64_t function = 0;
  Bytes arguments{};
  std::span<const ObjectHandle> refs{};
  std::span<const ObjectHandle> inner_refs{};
  std::span<const ActorId> inner_actors{};
  // Of a task or constructor of another program of this job (open_program); nil: of this one.
  JobId program{};
  // For people, of a language that has one function for all of its own: as long as the process. Null: the function's.
  const char* name = nullptr;
  // Of a task of such a language: which of its functions this is. Those of one number are taken to run equally long.
  uint64_t which = 0;
};
inline constexpr uint64_t kRefTag = 0x5241;  // private use

// Told once that an object is ready: with the backend's lock held and on any thread, so it is quick and calls nothing of
// the backend. It lives until then.
struct ReadyNotice {
  void (*ready)(ReadyNotice& self) = nullptr;
};

struct CancelOptions {
  bool force = false;     // of a task: ends the process that runs it
  bool recursive = true;  // for languages that cancel what the call has called as well
};

struct ActorRecord {
  ActorId id;
  std::string class_name;
  uint64_t constructor = 0;  // kPythonConstructor (by_name.h): it is written in Python
};

// Called with the value once it is there; what it throws goes on to the caller of get.
using ValueReader = void (*)(void* context, const ValueView& value);

// The two ends of a stream. Any thread (next: one at a time). The backend that made one outlives it, also when its
// session has ended: then functions throw Unavailable, and destroying does nothing.
class StreamWriting {
 public:
  enum class Wrote : uint8_t { kTaken, kFull, kCancelled };
  virtual ~StreamWriting() = default;  // end(nullptr)
  // Waits at most `timeout` (negative: for ever) for room; kFull when it passed.
  virtual Wrote write(Bytes item, std::span<const ObjectHandle> inner_refs, std::span<const ActorId> inner_actors,
                      std::chrono::nanoseconds timeout) = 0;
  virtual bool cancelled() = 0;
  // No more items; with the error that the reader is to get after them. Only the first call counts.
  virtual void end(const ErrorRecord* error) = 0;
};

// Where the items of a stream come from, as it travels. `marker` is an object of the maker's, counted by whoever holds
// the stream: when nobody does, the maker is told.
struct StreamAddress {
  ObjectId marker;
  NodeId node;
  ProcessId process;
  ActorId actor;  // that made it; nil: none did
  uint32_t incarnation = 0;
  uint32_t window = 0;
  int64_t window_bytes = 0;
};

struct GivenStream {
  StreamAddress address;
  ObjectHandle marker;
};

class StreamReading {
 public:
  enum class Got : uint8_t { kItem, kEnd, kNothing };
  virtual ~StreamReading() = default;  // cancel(), unless it was given away
  // kNothing: the time passed. Errors are thrown.
  virtual Got next(std::chrono::nanoseconds timeout, ValueReader read, void* context) = 0;
  virtual void cancel() = 0;
  // What open_stream reads elsewhere; this end reads no more. The marker's handle is this end's own.
  virtual GivenStream give() = 0;
};

struct MadeStream {
  std::unique_ptr<StreamWriting> writing;
  std::unique_ptr<StreamReading> reading;
};

class Backend {
 public:
  virtual ~Backend() = default;

  // Every function may be called from any thread of the user. Errors are thrown as rayo::Error subclasses.
  virtual ObjectHandle call(const ActorId& actor, const CallRequest& request) = 0;
  virtual ObjectHandle submit(const TaskOptions& options, const CallRequest& request) = 0;
  virtual ActorId spawn(const ActorOptions& options, std::string_view class_name, const CallRequest& constructor) = 0;
  // `inner_*`: the refs and actor handles inside the value live as long as the object.
  // The value is the parts one behind the other.
  virtual ObjectHandle put(std::span<const Bytes> parts, std::span<const ObjectHandle> inner_refs,
                           std::span<const ActorId> inner_actors) = 0;

  // Waits at most `timeout` (negative: for ever); false when it passed. Errors of the object arrive in
  // ValueView.
  virtual bool get(const ObjectHandle& object, std::chrono::nanoseconds timeout, ValueReader read, void* context) = 0;
  // Whether get would answer at once; what has arrived meanwhile is looked at, nothing is waited for.
  virtual bool ready(const ObjectHandle& object) = 0;
  // How many of `objects` are ready when `count` are or the time is over; ready[i] says which.
  virtual size_t wait(std::span<const ObjectHandle> objects, size_t count, std::chrono::nanoseconds timeout,
                      std::vector<bool>& ready) = 0;

  // `notice` is told of the object, at once where it is ready.
  virtual void when_ready(const ObjectHandle& object, ReadyNotice& notice) = 0;
  // Waits as get() does until `ready` holds; it is asked with the lock held, like a ReadyNotice. False: the time passed.
  virtual bool wait_for(bool (*ready)(void* context), void* context, std::chrono::nanoseconds timeout) = 0;

  // While `*flag` is true, waits of the calling thread end as if their time had passed (the last thread that asked).
  virtual void end_waits_while(const std::atomic<bool>*) {}
  // The flag has turned true. Async-signal-safe.
  virtual void interrupt() noexcept {}

  // Invalid where the object is made by another process's call.
  virtual void cancel(const ObjectHandle& object, CancelOptions how) = 0;
  virtual bool is_cancelled() = 0;

  // Handles count from 1 where call, submit, put, adopt (of an id that arrived inside a value), spawn and
  // find_actor answer them. retain and release: from any thread, never blocking, without effect after
  // shutdown. A handle of an actor that arrived inside a value is retained once by whoever decodes it.
  virtual ObjectHandle adopt(const ObjectId& id) = 0;
  virtual void retain(const ObjectHandle& object) = 0;
  virtual void release(const ObjectHandle& object) = 0;
  virtual void retain_actor(const ActorId& actor) = 0;
  virtual void release_actor(const ActorId& actor) = 0;

  // Before handles of these actors leave this process inside a result: waits until the cluster knows actors that were
  // spawned a moment ago. call, submit, put and spawn do so by themselves.
  virtual void settle(std::span<const ActorId>) {}

  // Invalid where no such actor lives.
  virtual ActorRecord find_actor(std::string_view name, std::string_view name_space) = 0;
  // Of one whose handle came without them; it is not counted again.
  virtual ActorRecord look_up(const ActorId& actor) = 0;
  virtual void kill_actor(const ActorId& actor, KillOptions options) = 0;

  // Small values of this job by key, kept by the cluster until the job ends: the functions and classes of a language
  // whose programs are not shipped as executables. store throws Invalid for one over 1 MiB; storing again changes nothing.
  virtual void store(std::string_view key, Bytes value) = 0;
  virtual std::optional<std::string> load(std::string_view key) = 0;
  // Another program, an executable on this machine, whose functions and classes this job wants to call by name: answers
  // what CallRequest::program takes. Its workers run it as a driver's run the driver's program; with the job it ends.
  virtual JobId open_program(const std::string& path) = 0;
  virtual MadeStream make_stream(const StreamOptions& options) = 0;
  // A stream that arrived inside a value.
  virtual std::unique_ptr<StreamReading> open_stream(const StreamAddress& address) = 0;

  // Runs code of the user that blocks outside of Rayo (rayo::blocking), here or on another thread; what it throws passes
  // through.
  virtual void run_blocking(void (*run)(void* context), void* context) = 0;

  virtual std::vector<NodeRecord> nodes() = 0;
  virtual ContextRecord context() = 0;
};

// The backend of this process; throws Unavailable with the next step before init and after shutdown.
Backend& backend();

}  // namespace internal
}  // namespace v0
}  // namespace rayo
#pragma GCC visibility pop
