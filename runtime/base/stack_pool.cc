#include "runtime/base/stack_pool.h"

#include <new>
#include <sys/mman.h>

#include "runtime/base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace rayo::base {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kGuard = StackPool::kGuardBytes;
constexpr size_t kStacksKept = 64;

void unmap(const Stack& stack) { ::munmap(static_cast<char*>(stack.top) - stack.size - kGuard, stack.size + kGuard); }

}  // namespace

StackPool::StackPool(size_t bytes) : bytes_((bytes + kPage - 1) / kPage * kPage) {}

StackPool::~StackPool() {
  for (const Stack& stack : free_) unmap(stack);
}

Stack StackPool::take() {
  Stack stack;
  if (!free_.empty()) {
    stack = free_.back();
    free_.pop_back();
  } else {
    void* memory = ::mmap(nullptr, bytes_ + kGuard, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    RAYO_CHECK(::mprotect(memory, kGuard, PROT_NONE) == 0, "the pages are ours");
    stack = {static_cast<char*>(memory) + kGuard + bytes_, bytes_};
  }
#if defined(__SANITIZE_ADDRESS__)
  // An ended fiber leaves its last frames' red zones behind.
  __asan_unpoison_memory_region(static_cast<char*>(stack.top) - stack.size, stack.size);
#endif
  return stack;
}

void StackPool::give_back(const Stack& stack) {
  if (free_.size() < kStacksKept)
    free_.push_back(stack);
  else
    unmap(stack);
}

}  // namespace rayo::base
