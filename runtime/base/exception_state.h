// The C++ runtime's state of exceptions (__cxa_get_globals), which is a thread's: what switches between stacks of one
// thread saves it with the one that leaves and restores it for the one that comes. Without it a fiber that suspends
// inside a catch block rethrows another fiber's exception.
#pragma once

#include <array>
#include <cstring>
#include <cxxabi.h>

namespace rayo::base {

class ExceptionState {
 public:
  // What the thread has now, kept here.
  void save() { std::memcpy(state_.data(), abi::__cxa_get_globals(), state_.size()); }
  void restore() const { std::memcpy(abi::__cxa_get_globals(), state_.data(), state_.size()); }

 private:
  std::array<unsigned char, 16> state_{};  // __cxa_eh_globals: caughtExceptions, uncaughtExceptions
};

}  // namespace rayo::base
