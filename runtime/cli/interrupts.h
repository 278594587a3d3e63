// Ctrl-C, SIGTERM and a closed terminal as something to poll for, so that a command ends what it began
// instead of being cut off. One a process at a time; made on the main thread before any other thread starts.
#pragma once

#include <signal.h>

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"

namespace rayo::cli {

class Interrupts {
 public:
  Interrupts();
  ~Interrupts();  // the signals do again what they did before
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  int fd() const { return fd_.get(); }
  // True once one came, after at most `span`.
  bool wait(base::Duration span);

 private:
  sigset_t before_;
  base::Fd fd_;
  bool came_ = false;
};

}  // namespace rayo::cli
