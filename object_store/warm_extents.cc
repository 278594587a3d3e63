#include "object_store/warm_extents.h"

#include <algorithm>

namespace rayo::object_store {

void WarmExtents::freed(int64_t offset, int64_t size_bytes, base::TimePoint now) { add(offset, {size_bytes, now}); }

void WarmExtents::taken(int64_t offset, int64_t size_bytes) {
  const int64_t end = offset + size_bytes;
  auto at = free_.upper_bound(offset);
  if (at != free_.begin()) --at;
  while (at != free_.end() && at->first < end) {
    const int64_t from = at->first, to = from + at->second.size;
    auto next = std::next(at);
    if (to > offset) {
      const Free cut = remove(at);
      if (from < offset) add(from, {offset - from, cut.since});
      if (to > end) add(end, {to - end, cut.since});
    }
    at = next;
  }
}

std::vector<WarmExtents::Piece> WarmExtents::take_cold(base::TimePoint now) {
  std::vector<Piece> cold;
  for (int64_t left = std::min(kAtOnce, bytes_ - kKept); left > 0 && now - ages_.begin()->first >= kRest;) {
    const int64_t offset = ages_.begin()->second;
    const Free oldest = remove(free_.find(offset));
    const int64_t size = std::min(oldest.size, left);
    if (size < oldest.size) add(offset, {oldest.size - size, oldest.since});
    cold.push_back({offset + oldest.size - size, size});
    left -= size;
  }
  return cold;
}

void WarmExtents::add(int64_t offset, Free free) {
  free_.emplace(offset, free);
  ages_.emplace(free.since, offset);
  bytes_ += free.size;
}

WarmExtents::Free WarmExtents::remove(std::map<int64_t, Free>::iterator at) {
  const Free free = at->second;
  ages_.erase({free.since, at->first});
  free_.erase(at);
  bytes_ -= free.size;
  return free;
}

}  // namespace rayo::object_store
