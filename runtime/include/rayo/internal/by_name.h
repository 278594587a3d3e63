// Calls by name, for callers that do not have the callee's program: another language, or another program. Every process
// that hosts code answers these functions; their arguments on the wire are an array of two, the name (of a function, a
// class or a method) and the array of the arguments, all of them portable (cbor.h). Not for users.
#pragma once

#include <cstdint>

#include <rayo/internal/type_name.h>

#pragma GCC visibility push(default)  // a library opened at run time uses the program's
namespace rayo {
inline namespace v0 {
namespace internal {

inline constexpr uint64_t kNamedTask = hash_name("rayo.named.task");
inline constexpr uint64_t kNamedConstructor = hash_name("rayo.named.constructor");
inline constexpr uint64_t kNamedMethod = hash_name("rayo.named.method");
// A task without arguments that answers what can be called by name in its program: an array of
// [kind (FunctionKind), class of a method, name, parameters, their count, result].
inline constexpr uint64_t kDescribe = hash_name("rayo.named.describe");
// The constructor of actors that are written in Python (python_bindings/native/functions.cc).
inline constexpr uint64_t kPythonConstructor = hash_name("rayo.python.constructor");

// Has this program answer them, unless its language does so by itself. Called by init.
void answer_named_calls();

}  // namespace internal
}  // namespace v0
}  // namespace rayo
#pragma GCC visibility pop
