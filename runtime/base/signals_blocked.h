// All signals are blocked in this thread while it lives: a thread that starts meanwhile never runs a handler of the
// program's. Whatever the start throws, the mask is as before afterwards.
#pragma once

#include <csignal>
#include <pthread.h>

namespace rayo::base {

class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace rayo::base
