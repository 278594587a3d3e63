// The functions that other processes may call in this program: filled before main by the use of call<>,
// remote<>, spawn<> and expose<>, constant from then on. Not for users.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <rayo/internal/backend.h>

#pragma GCC visibility push(default)  // a library opened at run time uses the program's
namespace rayo {
inline namespace v0 {
namespace internal {

// The call that runs, for code that does not answer it by returning from `invoke` alone. Any thread.
class OpenCall {
 public:
  // Sends Invocation::result now; the call goes on, and what it ends with is dropped.
  virtual void answer_now() = 0;
  // From within `invoke`, where may_defer: the call ends with finish() and not when that returns; until then its
  // Invocation lives. Calls that are made meanwhile start.
  virtual bool may_defer() const = 0;
  virtual void defer(void* owner) = 0;
  virtual void finish(const ErrorRecord* error) = 0;
  // Of its result.
  virtual ObjectId id() = 0;
  void* owner() const { return owner_; }
  // What runs, for people, in the place of Function::name; the text lives as long as the process.
  void call_it(const char* name) { name_.store(name, std::memory_order_relaxed); }

  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  bool cancels_children() const { return recursive_.load(std::memory_order_relaxed); }

 protected:
  ~OpenCall() = default;
  void* owner_ = nullptr;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> recursive_{false};
  std::atomic<const char*> name_{nullptr};
};

struct Function;

// One call as the callee sees it. The caller of `invoke` (runtime/base/invoke.h) fills it; everything it
// points to outlives the call.
struct Invocation {
  void* self = nullptr;             // the actor; null for a task and a constructor
  Bytes arguments;                  // CBOR array
  std::span<const ValueView> refs;  // values of the arguments that are refs, by index
  // Out: the encoded result is appended here; the refs and actor handles inside it are retained once each,
  // and whoever filled this in releases them.
  std::vector<std::byte>* result = nullptr;
  std::vector<ObjectHandle>* result_refs = nullptr;
  std::vector<ActorId>* result_actors = nullptr;
  void* constructed = nullptr;  // out: what a constructor made; ended by Function::destroy
  bool in_user_code = false;    // out: what is thrown while it is true was thrown by the user's code
  int argument = 0;             // out: the one that is being decoded, from 1
  OpenCall* open = nullptr;     // null for a constructor, and where everything is in one process
  // Of calls by name (by_name.h). In, of a method: what made the actor; out, of a constructor: what did so.
  const Function* made_by = nullptr;
  const Function* named = nullptr;  // out: the function of that name
  bool portable = false;            // the result goes to another language
};

enum class FunctionKind : uint8_t { kTask, kMethod, kConstructor };

struct Function {
  uint64_t id = 0;  // hash of the mangled name
  FunctionKind kind = FunctionKind::kTask;
  const char* mangled = nullptr;
  const char* name = nullptr;   // for people: "Counter::add"
  const char* owner = "";       // of a method: its actor's class
  const char* parameters = "";  // as the compiler spells them: "(long int)"; "": not to be called by name
  const char* result = "";      // "double"; of a constructor empty
  size_t parameter_count = 0;
  void (*invoke)(Invocation&) = nullptr;  // throws what the user's code throws
  void (*destroy)(void* self) = nullptr;  // of a constructor: ends what it made
  Function* next = nullptr;               // intrusive list: no allocation before main
};

void register_function(Function& function);
const Function* find_function(uint64_t id);
// Those of this program that have that name, or end with it behind "::", and (methods) belong to that class.
std::vector<const Function*> find_functions(FunctionKind kind, std::string_view owner, std::string_view name);
std::vector<const Function*> all_functions();
// Two different functions with one id: their names, for init's error. Empty: none.
std::string registry_collision();

}  // namespace internal
}  // namespace v0
}  // namespace rayo
#pragma GCC visibility pop
