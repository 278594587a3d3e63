#include "object_store/extents.h"

#include <algorithm>

#include "runtime/base/check.h"

namespace rayo::object_store {

Extents::Extents(int64_t capacity_bytes) : capacity_bytes_(capacity_bytes / kAlignment * kAlignment) {
  if (capacity_bytes_ > 0) add_free(0, capacity_bytes_);
}

int64_t Extents::rounded(int64_t size_bytes) {
  return (std::max<int64_t>(size_bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
}

std::optional<int64_t> Extents::allocate(int64_t size_bytes) {
  if (size_bytes < 0 || size_bytes > capacity_bytes_) return std::nullopt;
  const int64_t size = rounded(size_bytes);
  auto fit = by_size_.lower_bound({size, 0});
  if (fit == by_size_.end()) return std::nullopt;
  auto [found_size, offset] = *fit;
  remove_free(free_.find(offset));
  if (found_size > size) add_free(offset + size, found_size - size);
  used_.emplace(offset, size);
  used_bytes_ += size;
  return offset;
}

void Extents::release(int64_t offset) {
  auto extent = used_.find(offset);
  RAYO_CHECK(extent != used_.end(), "an extent is released once, by the directory that holds it");
  int64_t begin = extent->first;
  int64_t size = extent->second;
  used_.erase(extent);
  used_bytes_ -= size;
  auto next = free_.lower_bound(begin);
  if (next != free_.end() && begin + size == next->first) {
    size += next->second;
    remove_free(next);
  }
  auto previous = free_.lower_bound(begin);
  if (previous != free_.begin()) {
    --previous;
    if (previous->first + previous->second == begin) {
      begin = previous->first;
      size += previous->second;
      remove_free(previous);
    }
  }
  add_free(begin, size);
}

void Extents::add_free(int64_t offset, int64_t size) {
  free_.emplace(offset, size);
  by_size_.emplace(size, offset);
}

void Extents::remove_free(std::map<int64_t, int64_t>::iterator extent) {
  by_size_.erase({extent->second, extent->first});
  free_.erase(extent);
}

}  // namespace rayo::object_store
