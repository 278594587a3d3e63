// SIGTERM, SIGINT ... as events of a loop. The handler runs in a fiber, once for each signal that came.
//
//   Signals signals(loop, {SIGTERM, SIGINT}, [&](int) { stop_asked.set(); });
//
// Threads of our own block all signals (block_signals_in_this_thread); children that are exec'd get the
// default actions again.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>

#include "runtime/base/loop/loop.h"

namespace rayo::base {

class Signals {
 public:
  Signals(Loop& loop, std::initializer_list<int> numbers, std::function<void(int)> handler);
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// First thing in each thread of ours but the main one.
void block_signals_in_this_thread();

}  // namespace rayo::base
