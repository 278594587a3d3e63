#include "runtime/worker/waiters.h"

#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace rayo::worker {

void Waiters::add(Waiter& waiter) {
  waiter.previous = last_;
  waiter.next = nullptr;
  (last_ == nullptr ? first_ : last_->next) = &waiter;
  last_ = &waiter;
}

void Waiters::remove(Waiter& waiter) {
  (waiter.previous == nullptr ? first_ : waiter.previous->next) = waiter.next;
  (waiter.next == nullptr ? last_ : waiter.next->previous) = waiter.previous;
}

void Waiters::wake(Waiter& waiter) {
  if (waiter.word.exchange(1, std::memory_order_release) == 0)
    ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&waiter.word), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void Waiters::wake_ready() {
  for (Waiter* waiter = first_; waiter != nullptr; waiter = waiter->next)
    if (waiter->word.load(std::memory_order_relaxed) == 0 && waiter->ready(waiter->context)) wake(*waiter);
}

void Waiters::wake_first() {
  if (first_ != nullptr) wake(*first_);
}

void Waiters::wake_all() {
  for (Waiter* waiter = first_; waiter != nullptr; waiter = waiter->next) wake(*waiter);
}

void Waiters::sleep(Waiter& waiter, base::Duration span) {
  timespec limit{};
  limit.tv_sec = span.count() / 1'000'000'000;
  limit.tv_nsec = span.count() % 1'000'000'000;
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&waiter.word), FUTEX_WAIT_PRIVATE, 0,
            span < base::Duration::zero() ? nullptr : &limit, nullptr, 0);
}

}  // namespace rayo::worker
