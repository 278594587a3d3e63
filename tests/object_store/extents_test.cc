// What a user loses if these fail: two objects share bytes, or an arena that is half empty is full.
#include "object_store/extents.h"

#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <random>

namespace rayo::object_store {
namespace {

TEST(Extents, GivesTheSmallestThatFitsAndJoinsNeighbours) {
  Extents extents(1024);
  auto a = extents.allocate(256), b = extents.allocate(64), c = extents.allocate(256), d = extents.allocate(448);
  ASSERT_TRUE(a && b && c && d);
  EXPECT_FALSE(extents.allocate(1));
  extents.release(*b);
  extents.release(*d);
  EXPECT_EQ(extents.allocate(10), b);  // 64 fit better than 448
  extents.release(*b);
  extents.release(*a);
  extents.release(*c);
  EXPECT_EQ(extents.largest_free_bytes(), 1024);
  EXPECT_EQ(extents.used_bytes(), 0);
}

TEST(Extents, ASizeThatCannotBeIsRefused) {
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  Extents extents(1 << 20);
  for (int64_t size : {kLargest, kLargest - Extents::kAlignment, int64_t{1 << 20} + 1, int64_t{-1}, -kLargest - 1})
    EXPECT_FALSE(extents.allocate(size)) << size;
  EXPECT_EQ(extents.used_bytes(), 0);
  EXPECT_TRUE(extents.allocate(0));
  EXPECT_EQ(extents.largest_free_bytes(), (1 << 20) - Extents::kAlignment);
}

TEST(Extents, NothingOverlapsAfterAnyHistory) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Extents extents(1 << 20);
    std::map<int64_t, int64_t> used;  // offset -> size
    for (int step = 0; step < 2000; ++step) {
      if (used.empty() || random() % 5 < 3) {
        int64_t size = 1 + static_cast<int64_t>(random() % 20'000);
        if (auto offset = extents.allocate(size)) {
          auto next = used.lower_bound(*offset);
          ASSERT_TRUE(next == used.end() || *offset + size <= next->first);
          ASSERT_TRUE(next == used.begin() || std::prev(next)->first + std::prev(next)->second <= *offset);
          ASSERT_LE(*offset + size, 1 << 20);
          used[*offset] = size;
        } else {
          ASSERT_LT(extents.largest_free_bytes(), size + Extents::kAlignment);
        }
      } else {
        auto victim = std::next(used.begin(), static_cast<long>(random() % used.size()));
        extents.release(victim->first);
        used.erase(victim);
      }
    }
    for (auto [offset, size] : used) extents.release(offset);
    EXPECT_EQ(extents.largest_free_bytes(), 1 << 20);
  }
}

}  // namespace
}  // namespace rayo::object_store
