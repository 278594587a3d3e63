#include "runtime/base/loop/signals.h"

#include <boost/asio.hpp>
#include <signal.h>

namespace rayo::base {

struct Signals::State : std::enable_shared_from_this<State> {
  State(Loop& owner, std::function<void(int)> callback) : loop(owner), set(owner.io()), handler(std::move(callback)) {}
  void wait() {
    set.async_wait([state = shared_from_this()](const boost::system::error_code& error, int number) {
      if (error || state->closed) return;
      state->loop.spawn("signal", [state, number] { state->handler(number); });
      state->wait();
    });
  }
  Loop& loop;
  boost::asio::signal_set set;
  std::function<void(int)> handler;
  bool closed = false;
};

Signals::Signals(Loop& loop, std::initializer_list<int> numbers, std::function<void(int)> handler)
    : state_(std::make_shared<State>(loop, std::move(handler))) {
  for (int number : numbers) state_->set.add(number);
  state_->wait();
}

Signals::~Signals() {
  state_->closed = true;
  boost::system::error_code ignored;
  state_->set.clear(ignored);
  state_->set.cancel(ignored);
}

void block_signals_in_this_thread() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace rayo::base
