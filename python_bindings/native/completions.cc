#include "python_bindings/native/completions.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "python_bindings/native/signals.h"
#include "runtime/base/fd.h"

namespace rayo::python {

namespace {

// Refs that are watched and not there yet, in this process: while there are some the futures' thread waits in the engine.
struct Watched {
  std::atomic<int64_t> count{0};
  std::mutex mutex;
  std::condition_variable some;
};
Watched& watched() {
  static auto* const all = new Watched;  // as long as the process
  return *all;
}

}  // namespace

struct Completions::State {
  base::Fd event{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  std::mutex mutex;
  std::vector<uint64_t> tokens;

  void tell(uint64_t token) {
    std::lock_guard hold(mutex);
    tokens.push_back(token);
    const uint64_t one = 1;
    (void)!::write(event.get(), &one, sizeof one);
  }
  bool any() {
    std::lock_guard hold(mutex);
    return !tokens.empty();
  }
};

struct Completions::Watch : internal::ReadyNotice {
  std::shared_ptr<State> state;
  uint64_t token = 0;
};

Completions::Completions() : state_(std::make_shared<State>()) {}

int Completions::fd() const { return state_->event.get(); }

void Completions::watch(const Ref& ref, uint64_t token) {
  internal::Backend& backend = internal::backend();
  auto watch = std::make_unique<Watch>();
  watch->state = state_;
  watch->token = token;
  watch->ready = [](internal::ReadyNotice& base) {
    const std::unique_ptr<Watch> self(static_cast<Watch*>(&base));
    watched().count.fetch_sub(1);
    self->state->tell(self->token);
  };
  py::gil_scoped_release release;
  {
    std::lock_guard hold(watched().mutex);
    watched().count.fetch_add(1);
  }
  watched().some.notify_all();
  try {
    backend.when_ready(ref.counted.handle(backend), *watch);
  } catch (...) {
    watched().count.fetch_sub(1);
    throw;
  }
  watch.release();  // until it is told
}

py::list Completions::take() {
  std::vector<uint64_t> tokens;
  {
    std::lock_guard hold(state_->mutex);
    tokens.swap(state_->tokens);
    uint64_t count = 0;
    (void)!::read(state_->event.get(), &count, sizeof count);
  }
  py::list list;
  for (const uint64_t token : tokens) list.append(token);
  return list;
}

bool Completions::any_watched() { return watched().count.load() != 0; }

py::list Completions::wait() {
  without_gil([this] {
    if (watched().count.load() == 0 && !state_->any()) {
      std::unique_lock hold(watched().mutex);
      watched().some.wait(hold, [this] { return watched().count.load() != 0 || state_->any(); });
    }
    const auto enough = [](void* context) {
      return static_cast<State*>(context)->any() || watched().count.load() == 0;
    };
    try {
      internal::backend().wait_for(enough, state_.get(), std::chrono::nanoseconds(-1));
    } catch (...) {  // the session has ended: of what was watched nothing will be told
      watched().count.store(0);
      throw;
    }
  });
  return take();
}

}  // namespace rayo::python
