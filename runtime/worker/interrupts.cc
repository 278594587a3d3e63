#include "runtime/worker/interrupts.h"

#include <signal.h>
#include <utility>

namespace rayo::worker {

namespace {
std::atomic<Interrupts*> g_current{nullptr};
}

Interrupts::Interrupts(Engine& engine) : engine_(engine) {
  struct sigaction now {};
  if (::sigaction(SIGINT, nullptr, &now) != 0 || now.sa_handler != SIG_DFL || (now.sa_flags & SA_SIGINFO)) return;
  g_current.store(this);
  struct sigaction ours {};
  ours.sa_handler = &on_signal;
  sigemptyset(&ours.sa_mask);
  ours.sa_flags = SA_RESTART;
  installed_ = ::sigaction(SIGINT, &ours, nullptr) == 0;
}

void Interrupts::end() {
  if (!std::exchange(installed_, false)) return;
  ::signal(SIGINT, SIG_DFL);
  g_current.store(nullptr);
}

void Interrupts::on_signal(int signal) {
  Interrupts* self = g_current.load();
  if (self && self->waiting_.load(std::memory_order_relaxed) > 0 && !self->spent_.exchange(true)) {
    self->pending_.store(true);
    self->engine_.interrupt();
    return;
  }
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

}  // namespace rayo::worker
