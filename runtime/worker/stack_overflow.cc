#include "runtime/worker/stack_overflow.h"

#include <csignal>
#include <string_view>
#include <unistd.h>

namespace rayo::worker {
namespace {

// Read by the handler, on the thread that writes them.
std::atomic<const char*> g_bottom{nullptr};
std::atomic<std::atomic<uint32_t>*> g_told{nullptr};

constexpr std::string_view kText =
    "rayo: the stack of a concurrent call overflowed\n"
    "try: a larger stack_size in the actor's options, or less on the stack\n";

void on_fault(int, siginfo_t* info, void*) {
  const char* bottom = g_bottom.load(std::memory_order_relaxed);
  const auto* at = static_cast<const char*>(info->si_addr);
  if (!bottom || at >= bottom || at < bottom - base::StackPool::kGuardBytes) return;
  g_told.load(std::memory_order_relaxed)->store(1, std::memory_order_relaxed);
  [[maybe_unused]] auto written = ::write(STDERR_FILENO, kText.data(), kText.size());
  // SA_RESETHAND: the fault comes again, and the process dies where it happened.
}

}  // namespace

void watch_stack_overflows(std::atomic<uint32_t>& told) {
  g_told = &told;
  struct sigaction now {};
  if (::sigaction(SIGSEGV, nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO) || now.sa_handler != SIG_DFL) return;
  static char memory[32 << 10];
  stack_t alternative{};
  alternative.ss_sp = memory;
  alternative.ss_size = sizeof memory;
  if (::sigaltstack(&alternative, nullptr) != 0) return;
  struct sigaction ours {};
  ours.sa_sigaction = on_fault;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | static_cast<int>(SA_RESETHAND);
  ::sigaction(SIGSEGV, &ours, nullptr);
}

void runs_on(const base::Stack& stack) {
  g_bottom.store(stack.top ? static_cast<const char*>(stack.top) - stack.size : nullptr, std::memory_order_relaxed);
}

}  // namespace rayo::worker
