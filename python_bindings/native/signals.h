// Signals and waits. Python runs its signal handlers on the main thread, between two lines of Python; a wait in native
// code has to end for them. So handlers that Python has installed are called through one of ours, which ends the main
// thread's wait at once.
#pragma once

#include <chrono>
#include <exception>
#include <pybind11/pybind11.h>

#include <rayo/internal/backend.h>

namespace rayo::python {

namespace py = pybind11;

// Waits of this thread are ended by signals from now on: it is Python's main thread.
void hear_signals(internal::Backend& backend);

// Runs `code`, which may take long, without the GIL. At the interpreter's end PyEval_RestoreThread ends the thread by
// unwinding it, and nothing else may be unwinding it then: what `code` throws is kept until after it.
template <class Code>
void without_gil(Code&& code) {
  std::exception_ptr thrown;
  PyThreadState* const state = PyEval_SaveThread();
  try {
    code();
  } catch (...) {
    thrown = std::current_exception();
  }
  PyEval_RestoreThread(state);
  if (thrown) std::rethrow_exception(thrown);
}

// Runs `step(timeout)` without the GIL until it answers true or the time is over (negative: no end): false. Raises what
// a signal handler raises.
template <class Step>
bool wait_for(std::chrono::nanoseconds timeout, Step&& step);

namespace signals {
// A wait up to this long is not worth looking at the handlers for.
inline constexpr std::chrono::nanoseconds kShort = std::chrono::milliseconds(2);
// The main thread: what came before this is dealt with (raises), what comes ends the next wait.
void begin_wait();
// The main thread is about to wait for long.
void catch_handlers();
}  // namespace signals

template <class Step>
bool wait_for(std::chrono::nanoseconds timeout, Step&& step) {
  using std::chrono::nanoseconds;
  const bool endless = timeout.count() < 0;
  const auto end = endless ? internal::Clock::time_point::max() : internal::Clock::now() + timeout;
  nanoseconds longest = signals::kShort;
  while (true) {
    signals::begin_wait();
    nanoseconds span = longest;
    if (!endless) {
      const nanoseconds left = std::max(nanoseconds(0), nanoseconds(end - internal::Clock::now()));
      span = longest.count() < 0 ? left : std::min(left, longest);
    }
    bool done = false;
    without_gil([&] { done = step(span); });
    if (done) return true;
    if (!endless && internal::Clock::now() >= end) return signals::begin_wait(), false;
    signals::catch_handlers();
    longest = nanoseconds(-1);
  }
}

}  // namespace rayo::python
