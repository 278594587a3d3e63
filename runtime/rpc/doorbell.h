// The doorbell of a process: one shared page and two eventfds by which its peers on the same node tell it
// that a ring holds something. Idle peers cost nothing: a peer is one bit.
//
//   auto mine = Doorbell::create();                                  // once a process
//   hello_fds = {mine->page_fd(), mine->main_fd(), mine->service_fd()};
//   auto theirs = PeerDoorbell::map({page, main, service});          // from PeerLink's descriptors
//   theirs->ring(my_bit, urgent);                                    // after the ring's tail was stored
//
// The raylet maps each process's page too: it rings the bit of a dead peer after it marked that peer's rings
// closed.
//
// Order of stores (docs/wire.md, Doorbells), all sequentially consistent: the ringer sets its bit, then looks at
// `armed`; the sleeper sets `armed`, then looks at the bits. The ringer writes the eventfd first and clears
// `armed` after, so that a ringer that is killed in between hangs nobody. The eventfds are edge-triggered in
// epoll and never read.
//
// Everything in the page can be overwritten by a hostile peer: nothing here is an index or a length.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "runtime/base/fd.h"
#include "runtime/base/status.h"

namespace rayo::rpc {

inline constexpr uint32_t kDoorbellBits = 1024;  // peers of one process on its node

struct DoorbellPage {
  static constexpr size_t kWords = kDoorbellBits / 64;
  alignas(64) std::array<std::atomic<uint64_t>, kWords> ready;
  // generation << 2 | who sleeps: 0 nobody, 1 the main thread (in epoll), 2 only the service thread (user
  // code runs).
  alignas(64) std::atomic<uint64_t> armed;
  // Odd while no thread of the process drives its rings, so while user code runs; counts up.
  alignas(64) std::atomic<uint64_t> busy;
  std::atomic<uint32_t> core;        // on which the driving thread ran last
  std::atomic<uint32_t> overflowed;  // 1: the stack of a concurrent call overflowed; the process is about to die of it
  // 1 from an urgent sender's write of the service eventfd until the service thread looks.
  alignas(64) std::atomic<uint32_t> kicked;
};
static_assert(sizeof(DoorbellPage) <= 4096 && std::atomic<uint64_t>::is_always_lock_free);

enum class Sleeping : uint64_t { kNobody = 0, kMain = 1, kServiceOnly = 2 };

struct DoorbellFds {
  base::Fd page;
  base::Fd main;
  base::Fd service;
};

struct UnmapDoorbell {
  void operator()(DoorbellPage* page) const;
};
using MappedDoorbell = std::unique_ptr<DoorbellPage, UnmapDoorbell>;

// The own doorbell. The functions that arm are called under the process's baton; only `page` is shared.
class Doorbell {
 public:
  static base::StatusOr<Doorbell> create();

  DoorbellPage& page() { return *page_; }
  int page_fd() const { return fds_.page.get(); }
  int main_fd() const { return fds_.main.get(); }
  int service_fd() const { return fds_.service.get(); }

  // Announces a sleep. The caller looks at the bits once more before it sleeps, and disarms after.
  void arm(Sleeping who) {
    page_->armed.exchange(++generation_ << 2 | static_cast<uint64_t>(who), std::memory_order_seq_cst);
  }
  void disarm() { page_->armed.store(0, std::memory_order_seq_cst); }
  // Clears only the state that says that user code runs.
  void disarm_service() {
    if ((page_->armed.load(std::memory_order_relaxed) & 3) == static_cast<uint64_t>(Sleeping::kServiceOnly)) disarm();
  }
  // True where any bit of the first `words` words is set.
  bool any(size_t words) const {
    for (size_t i = 0; i < words; ++i)
      if (page_->ready[i].load(std::memory_order_seq_cst) != 0) return true;
    return false;
  }
  // A word of bits, cleared: read the tails of those rings after it.
  uint64_t take(size_t word) {
    auto& bits = page_->ready[word];
    return bits.load(std::memory_order_acquire) == 0 ? 0 : bits.exchange(0, std::memory_order_seq_cst);
  }
  // `busy` to the next odd (no thread drives) or even value.
  void set_busy(bool user_code) {
    busy_ += (busy_ & 1) != static_cast<uint64_t>(user_code);
    page_->busy.store(busy_, std::memory_order_seq_cst);
  }
  // Wakes nobody any more; the page stays, for whoever still looks at it.
  void close() { fds_ = {}; }
  void wake_main() const;     // async-signal-safe
  void wake_service() const;  // async-signal-safe

 private:
  Doorbell(DoorbellFds fds, MappedDoorbell page) : fds_(std::move(fds)), page_(std::move(page)) {}

  DoorbellFds fds_;
  MappedDoorbell page_;
  uint64_t generation_ = 0;
  uint64_t busy_ = 0;
};

// A peer's doorbell. Any thread may ring it.
class PeerDoorbell {
 public:
  // Refuses a page that could shrink under us (its seals are checked) and sets the eventfds non-blocking.
  static base::StatusOr<PeerDoorbell> map(DoorbellFds fds);

  // Sets `bit` and wakes the peer where it sleeps: its main thread, or for an urgent frame its service thread
  // while its user code runs. The ring's tail was stored before.
  void ring(uint32_t bit, bool urgent, bool look = false);

  // Sets `bit` and wakes nobody: enough for a peer that is awake. ring() follows with `look` true, since then
  // the bit's being set no longer says that somebody has looked at `armed`.
  void mark(uint32_t bit);

  // Before an urgent sender sleeps: makes sure that the peer's service thread looks where its main thread may
  // not, because it went into user code after the bit was set.
  void kick(uint32_t bit);

  // The net under the wake-ups: sets the bit and writes both eventfds whatever the page says, since a third
  // process may have overwritten it. For a peer that has not read what lies there for 100 ms.
  void ring_regardless(uint32_t bit);

  bool overflowed() const { return page_->overflowed.load(std::memory_order_relaxed) == 1; }
  uint32_t core() const { return page_->core.load(std::memory_order_relaxed); }

 private:
  PeerDoorbell(DoorbellFds fds, MappedDoorbell page) : fds_(std::move(fds)), page_(std::move(page)) {}

  DoorbellFds fds_;
  MappedDoorbell page_;
};

}  // namespace rayo::rpc
