// A driver's Ctrl-C: the first one ends a wait with Cancelled; the second, and any outside of a wait, does what it always
// did: it ends the program. A program that has a handler of its own keeps it, and this class then does nothing.
//
// One object at a time (a signal handler can find only one); made and ended by the driver's init and shutdown.
#pragma once

#include <atomic>

#include "runtime/worker/engine.h"

namespace rayo::worker {

class Interrupts {
 public:
  explicit Interrupts(Engine& engine);
  ~Interrupts() { end(); }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // The signal does again what it did before.
  void end();

  // Around a wait. pending() turns true when the user pressed Ctrl-C during one; take() answers it once.
  void begin_wait() { waiting_.fetch_add(1, std::memory_order_relaxed); }
  void end_wait() { waiting_.fetch_sub(1, std::memory_order_relaxed); }
  bool pending() const { return pending_.load(std::memory_order_relaxed); }
  bool take() { return pending_.exchange(false, std::memory_order_relaxed); }

 private:
  static void on_signal(int signal);

  Engine& engine_;
  std::atomic<int> waiting_{0};
  std::atomic<bool> pending_{false};
  std::atomic<bool> spent_{false};  // there was a first one
  bool installed_ = false;
};

}  // namespace rayo::worker
