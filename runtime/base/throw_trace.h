// Where an exception was thrown. While a ThrowTrace lives in a thread, each throw of that thread notes its
// stack; after the catch the stack of the exception at hand can be asked for. Costs some microseconds a
// throw, and nothing where nothing is thrown.
//
//   ThrowTrace trace;
//   try { user_code(); } catch (...) { text = trace.stack(std::current_exception()); }
//
// One thread; may nest. Done by standing before libstdc++'s __cxa_throw; where a program links libstdc++
// statically, or is built by clang with a sanitizer, there is no trace and stack() is empty.
#pragma once

#include <exception>
#include <string>

namespace rayo::base {

class ThrowTrace {
 public:
  ThrowTrace();
  ~ThrowTrace();
  ThrowTrace(const ThrowTrace&) = delete;
  ThrowTrace& operator=(const ThrowTrace&) = delete;

  // One frame a line, the innermost first, up to where this object was made; empty where the throw was not
  // seen.
  std::string stack(const std::exception_ptr& thrown) const;
};

}  // namespace rayo::base
