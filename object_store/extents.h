// Which bytes of the arena are free: best fit with immediate joining of neighbours. No I/O, one owner.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace rayo::object_store {

// Invariants, checked by the test after every step: free extents never touch or overlap each other or a used one, and
// used + free = capacity.
class Extents {
 public:
  static constexpr int64_t kAlignment = 64;  // a cache line: what a vectorised reader wants

  explicit Extents(int64_t capacity_bytes);
  // What an extent for so many bytes has.
  static int64_t rounded(int64_t size_bytes);

  // The offset of an extent of at least `size_bytes` (rounded up to kAlignment); nullopt where no free extent is as
  // large. Any number may be asked for: it comes from processes.
  std::optional<int64_t> allocate(int64_t size_bytes);
  // Frees what allocate() gave.
  void release(int64_t offset);

  int64_t capacity_bytes() const { return capacity_bytes_; }
  int64_t used_bytes() const { return used_bytes_; }
  // For tests.
  int64_t largest_free_bytes() const { return by_size_.empty() ? 0 : by_size_.rbegin()->first; }

 private:
  void add_free(int64_t offset, int64_t size);
  void remove_free(std::map<int64_t, int64_t>::iterator extent);

  int64_t capacity_bytes_;
  int64_t used_bytes_ = 0;
  std::map<int64_t, int64_t> used_;                // offset -> size
  std::map<int64_t, int64_t> free_;                // offset -> size
  std::set<std::pair<int64_t, int64_t>> by_size_;  // (size, offset) of the free ones
};

}  // namespace rayo::object_store
