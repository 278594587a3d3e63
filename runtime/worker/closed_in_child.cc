#include "runtime/worker/closed_in_child.h"

#include <array>
#include <pthread.h>
#include <unistd.h>

namespace rayo::worker {
namespace {

// A process has one link to a raylet at a time; a test several.
constexpr size_t kPlaces = 16;
// Descriptors + 1; 0: free. Without a lock: at a fork another thread might hold it.
constinit std::array<std::atomic<int>, kPlaces> g_closed_in_child{};

void close_in_child() {
  for (std::atomic<int>& place : g_closed_in_child)
    if (const int held = place.exchange(0); held != 0) ::close(held - 1);
}

}  // namespace

ClosedInChild::ClosedInChild(int fd) {
  static const int once = ::pthread_atfork(nullptr, nullptr, close_in_child);
  static_cast<void>(once);
  for (std::atomic<int>& place : g_closed_in_child) {
    int free = 0;
    if (!place.compare_exchange_strong(free, fd + 1)) continue;
    place_ = &place;
    return;
  }
}

ClosedInChild::~ClosedInChild() {
  if (place_) place_->store(0);
}

}  // namespace rayo::worker
