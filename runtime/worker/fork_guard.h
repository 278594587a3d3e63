// Knows whether this process is a child that the user forked from one that uses Rayo: a page that the kernel wipes at
// fork. One load a question; any thread.
#pragma once

#include <atomic>
#include <sys/mman.h>

namespace rayo::worker {

class ForkGuard {
 public:
  ForkGuard() {
    void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return;  // then a fork goes unnoticed: nothing else breaks
    page_ = new (page) std::atomic<int>(1);
    ::madvise(page, 4096, MADV_WIPEONFORK);
  }
  ~ForkGuard() {
    if (page_) ::munmap(page_, 4096);
  }
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

  bool in_child() const { return page_ && page_->load(std::memory_order_relaxed) == 0; }

 private:
  std::atomic<int>* page_ = nullptr;
};

}  // namespace rayo::worker
