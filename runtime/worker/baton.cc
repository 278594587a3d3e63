#include "runtime/worker/baton.h"

#include <climits>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace rayo::worker {

void Baton::lock_slowly() {
  while (word_.exchange(2, std::memory_order_acquire) != 0)
    ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word_), FUTEX_WAIT_PRIVATE, 2, nullptr, nullptr, 0);
}

void Baton::wake_one() {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word_), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace rayo::worker
