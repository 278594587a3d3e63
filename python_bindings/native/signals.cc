#include "python_bindings/native/signals.h"

#include <array>
#include <atomic>
#include <csignal>
#include <pthread.h>

#include "runtime/api/current.h"

namespace rayo::python {
namespace {

// Those that programs handle; what ends a process is left alone.
constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGUSR1, SIGUSR2};

// A signal handler finds nothing but what is global.
std::atomic<bool> g_signalled{false};
std::atomic<bool> g_hears{false};
pthread_t g_main;
std::array<struct sigaction, NSIG> g_before{};

void on_signal(int signal, siginfo_t* info, void* context) {
  g_signalled.store(true);
  if (internal::Backend* backend = api::current_backend()) backend->interrupt();
  const struct sigaction& before = g_before[static_cast<size_t>(signal)];
  if (before.sa_flags & SA_SIGINFO)
    before.sa_sigaction(signal, info, context);
  else
    before.sa_handler(signal);
}

bool on_main_thread() { return g_hears.load() && ::pthread_equal(::pthread_self(), g_main); }

}  // namespace

void hear_signals(internal::Backend& backend) {
  g_main = ::pthread_self();
  g_hears.store(true);
  backend.end_waits_while(&g_signalled);
}

void signals::begin_wait() {
  if (on_main_thread()) g_signalled.store(false);
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

// Again before each long wait: signal.signal() installs Python's own handler anew.
void signals::catch_handlers() {
  if (!on_main_thread()) return;
  for (const int signal : kSignals) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) != 0 || now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN) continue;
    if (now.sa_sigaction == on_signal) continue;
    g_before[static_cast<size_t>(signal)] = now;
    struct sigaction ours = now;
    ours.sa_sigaction = on_signal;
    ours.sa_flags |= SA_SIGINFO;
    ::sigaction(signal, &ours, nullptr);
  }
}

}  // namespace rayo::python
