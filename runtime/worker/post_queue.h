// Things to be done under the baton, posted by any thread without a lock (a Treiber stack, taken whole and
// turned round).
#pragma once

#include <atomic>
#include <utility>

#include "runtime/worker/engine.h"

namespace rayo::worker {

class PostQueue {
 public:
  // Any thread.
  void push(Posted* item) {
    item->next = head_.load(std::memory_order_relaxed);
    while (!head_.compare_exchange_weak(item->next, item, std::memory_order_seq_cst, std::memory_order_relaxed)) {
    }
  }
  bool empty() const { return head_.load(std::memory_order_seq_cst) == nullptr; }

  // Under the baton. True: something ran.
  bool run() {
    if (head_.load(std::memory_order_relaxed) == nullptr) return false;
    Posted* newest = head_.exchange(nullptr, std::memory_order_seq_cst);
    Posted* oldest = nullptr;
    while (newest != nullptr) {
      Posted* next = std::exchange(newest->next, oldest);
      oldest = std::exchange(newest, next);
    }
    while (oldest != nullptr) {
      Posted* next = oldest->next;
      oldest->run(oldest);
      oldest = next;
    }
    return true;
  }

 private:
  std::atomic<Posted*> head_{nullptr};
};

}  // namespace rayo::worker
