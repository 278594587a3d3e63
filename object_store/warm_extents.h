// Which free bytes of the arena still have memory behind them. Some of it is kept, since a first touch costs microseconds a page;
// what lies beyond goes back to the machine, whose workers want it. No I/O, one owner, who discards.
//
//   warm.freed(offset, size, now);  warm.taken(offset, size);
//   for (auto piece : warm.take_cold(now)) arena.discard(piece.offset, piece.size_bytes);   // before the next taken()
//
// Invariant (the test's, after every step): pieces never overlap each other or what is taken.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "runtime/base/clock.h"

namespace rayo::object_store {

class WarmExtents {
 public:
  static constexpr int64_t kKept = 256ll << 20;
  // A program that puts and drops in a loop meets its own pages again.
  static constexpr base::Duration kRest = std::chrono::seconds(10);
  // In one turn: giving back costs the loop some 0.1 us a page.
  static constexpr int64_t kAtOnce = 32ll << 20;

  struct Piece {
    int64_t offset = 0;
    int64_t size_bytes = 0;
  };

  void freed(int64_t offset, int64_t size_bytes, base::TimePoint now);
  void taken(int64_t offset, int64_t size_bytes);
  // What lies beyond kKept and nobody wanted for kRest, the oldest first: cold from now on.
  std::vector<Piece> take_cold(base::TimePoint now);
  int64_t bytes() const { return bytes_; }

 private:
  struct Free {
    int64_t size = 0;
    base::TimePoint since{};
  };
  void add(int64_t offset, Free free);
  Free remove(std::map<int64_t, Free>::iterator at);

  int64_t bytes_ = 0;
  std::map<int64_t, Free> free_;                        // by offset
  std::set<std::pair<base::TimePoint, int64_t>> ages_;  // (since, offset)
};

}  // namespace rayo::object_store
