#include "runtime/base/loop/blocking.h"

#include <condition_variable>
#include <mutex>
#include <pthread.h>
#include <thread>
#include <vector>

#include "runtime/base/loop/signals.h"

namespace rayo::base {

struct WorkThreads::State {
  void serve() {
    block_signals_in_this_thread();
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return ending || !work.empty(); });
      if (work.empty()) return;
      Task next = std::move(work.front());
      work.pop_front();
      lock.unlock();
      next();
      next = nullptr;
      lock.lock();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Task> work;
  bool ending = false;
  std::vector<std::thread> threads;
};

WorkThreads::WorkThreads(std::string name, int threads) : state_(std::make_unique<State>()) {
  for (int i = 0; i < threads; ++i) {
    state_->threads.emplace_back([this] { state_->serve(); });
    pthread_setname_np(state_->threads.back().native_handle(), name.substr(0, 15).c_str());
  }
}

WorkThreads::~WorkThreads() {
  {
    std::lock_guard lock(state_->mutex);
    state_->ending = true;
  }
  state_->changed.notify_all();
  for (auto& thread : state_->threads) thread.join();
}

void WorkThreads::run(Task work) {
  {
    std::lock_guard lock(state_->mutex);
    state_->work.push_back(std::move(work));
  }
  state_->changed.notify_one();
}

}  // namespace rayo::base
