// Completions: which of the refs that somebody waits for are there, told through an eventfd that an asyncio loop watches
// and to a thread that waits for futures. While any ref is watched that thread waits in the engine, so that replies are
// taken in although everybody else sleeps elsewhere.
#pragma once

#include <cstdint>
#include <memory>
#include <pybind11/pybind11.h>

#include "python_bindings/native/value.h"

namespace rayo::python {

class Completions {
 public:
  Completions();
  int fd() const;
  // `token` is told once the ref has its value or error.
  void watch(const Ref& ref, uint64_t token);
  // The tokens that were told and not taken yet.
  py::list take();
  // The futures' thread: waits until there are some, of this object; empty where there may be none for now.
  py::list wait();
  // Whether a ref is watched anywhere in this process and not there yet.
  static bool any_watched();

 private:
  struct State;
  struct Watch;
  std::shared_ptr<State> state_;
};

}  // namespace rayo::python
