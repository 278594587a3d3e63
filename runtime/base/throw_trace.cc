#include "runtime/base/throw_trace.h"

#include <absl/debugging/symbolize.h>
#include <array>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <mutex>
#include <typeinfo>

namespace rayo::base {
namespace {

constexpr int kFrames = 32;
constexpr int kRemembered = 4;  // an exception that is caught and kept while others are thrown still finds its stack

struct Throw {
  const void* exception = nullptr;
  int count = 0;
  std::array<void*, kFrames> frames{};
};
struct Recent {
  int armed = 0;
  int next = 0;
  std::array<Throw, kRemembered> throws{};
};
thread_local constinit Recent t_recent;

[[maybe_unused]] void note(const void* exception) {
  Throw& entry = t_recent.throws[static_cast<size_t>(t_recent.next)];
  t_recent.next = (t_recent.next + 1) % kRemembered;
  entry.exception = exception;
  entry.count = ::backtrace(entry.frames.data(), kFrames);
}

// libstdc++'s exception_ptr is one pointer, to the thrown object.
const void* object_of(const std::exception_ptr& thrown) {
  static_assert(sizeof thrown == sizeof(void*));
  const void* object = nullptr;
  std::memcpy(&object, static_cast<const void*>(&thrown), sizeof object);
  return object;
}

// What stands between the user's code and the runtime, and the throw itself: of no use to the reader.
bool runtime_frame(const char* name) { return std::strncmp(name, "rayo::base::invoke", 18) == 0; }
bool plumbing(const char* name) {
  return std::strstr(name, "rayo::v0::internal::") != nullptr || std::strstr(name, "rayo::base::") != nullptr ||
         std::strncmp(name, "__cxa_throw", 11) == 0 || std::strncmp(name, "std::", 5) == 0;
}

std::string text_of(const Throw& entry) {
  std::string text;
  for (int i = 0; i < entry.count; ++i) {
    char name[512] = "?";
    // Return addresses: the call itself lies one byte before.
    absl::Symbolize(static_cast<char*>(entry.frames[static_cast<size_t>(i)]) - 1, name, sizeof name);
    if (runtime_frame(name)) break;
    if (!plumbing(name)) text.append(name).append("\n");
  }
  return text;
}

}  // namespace

ThrowTrace::ThrowTrace() {
  if (t_recent.armed++ == 0) t_recent.next = 0;
}

ThrowTrace::~ThrowTrace() {
  if (--t_recent.armed == 0 && t_recent.throws[0].exception != nullptr) t_recent.throws = {};
}

std::string ThrowTrace::stack(const std::exception_ptr& thrown) const {
  static std::once_flag once;
  std::call_once(once, [] { absl::InitializeSymbolizer(nullptr); });
  const void* object = object_of(thrown);
  for (const Throw& entry : t_recent.throws) {
    if (entry.exception != nullptr && entry.exception == object) return text_of(entry);
  }
  return {};
}

}  // namespace rayo::base

#if !defined(__clang__)
// Stands before libstdc++'s: a definition in the program wins over the shared library's. Weak, so that a
// statically linked libstdc++ wins over it without an error.
extern "C" {
[[gnu::weak, gnu::visibility("default"), noreturn]] void __cxa_throw(void* exception, void* type,
                                                                     void (*destroy)(void*)) {
  using Throw = void (*)(void*, void*, void (*)(void*));
  // Pulls a static libstdc++'s own definition into the link, which then replaces this one.
  static const volatile auto keep = reinterpret_cast<void*>(&abi::__cxa_init_primary_exception);
  static_cast<void>(keep);
  static const auto next = reinterpret_cast<Throw>(::dlsym(RTLD_NEXT, "__cxa_throw"));
  if (rayo::base::t_recent.armed > 0) rayo::base::note(exception);
  if (next == nullptr) std::abort();
  next(exception, type, destroy);
  __builtin_unreachable();
}
}
#endif
