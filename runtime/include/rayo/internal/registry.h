// The functions that other processes may call in this program: filled before main by the use of call<>,
// remote<>, spawn<> and expose<>, constant from then on. Not for users.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <rayo/internal/backend.h>

#pragma GCC visibility push(default)  // a library opened at run time uses the program's
namespace rayo {
inline namespace v0 {
namespace internal {

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
};

enum class FunctionKind : uint8_t { kTask, kMethod, kConstructor };

struct Function {
  uint64_t id = 0;  // hash of the mangled name
  FunctionKind kind = FunctionKind::kTask;
  const char* mangled = nullptr;
  const char* name = nullptr;             // for people: "Counter::add"
  void (*invoke)(Invocation&) = nullptr;  // throws what the user's code throws
  void (*destroy)(void* self) = nullptr;  // of a constructor: ends what it made
  Function* next = nullptr;               // intrusive list: no allocation before main
};

void register_function(Function& function);
const Function* find_function(uint64_t id);
// Two different functions with one id: their names, for init's error. Empty: none.
std::string registry_collision();

}  // namespace internal
}  // namespace v0
}  // namespace rayo
#pragma GCC visibility pop
