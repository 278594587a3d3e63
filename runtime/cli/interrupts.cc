#include "runtime/cli/interrupts.h"

#include <algorithm>
#include <chrono>
#include <poll.h>
#include <sys/signalfd.h>

namespace rayo::cli {

Interrupts::Interrupts() {
  sigset_t wanted;
  sigemptyset(&wanted);
  for (int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&wanted, number);
  pthread_sigmask(SIG_BLOCK, &wanted, &before_);
  fd_ = base::Fd(signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
}

Interrupts::~Interrupts() {
  signalfd_siginfo taken;
  while (read(fd_.get(), &taken, sizeof taken) > 0) continue;
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool Interrupts::wait(base::Duration span) {
  if (came_) return true;
  auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(span).count();
  pollfd waiting{fd_.get(), POLLIN, 0};
  came_ = poll(&waiting, 1, static_cast<int>(std::clamp<int64_t>(milliseconds, 0, 60'000))) > 0;
  return came_;
}

}  // namespace rayo::cli
