// What a user loses if these fail: a node keeps the memory of every object that it ever had and its workers are killed for it,
// or bytes of an object in use are thrown away.
#include "object_store/warm_extents.h"

#include <gtest/gtest.h>
#include <map>
#include <random>

namespace rayo::object_store {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr base::TimePoint kStart{};
constexpr base::TimePoint kLater = kStart + WarmExtents::kRest;

TEST(WarmExtents, WhatIsBeyondTheBudgetGoesBackWhenNobodyWantsIt) {
  WarmExtents warm;
  warm.freed(0, WarmExtents::kKept, kStart);
  EXPECT_TRUE(warm.take_cold(kLater).empty()) << "so much is kept";
  warm.freed(WarmExtents::kKept, 8 * kMiB, kStart + std::chrono::seconds(1));
  EXPECT_TRUE(warm.take_cold(kStart + std::chrono::seconds(2)).empty()) << "it may be wanted again";
  auto cold = warm.take_cold(kLater);
  ASSERT_EQ(cold.size(), 1u);
  EXPECT_EQ(cold[0].offset, WarmExtents::kKept - 8 * kMiB) << "the oldest";
  EXPECT_EQ(cold[0].size_bytes, 8 * kMiB);
  EXPECT_EQ(warm.bytes(), WarmExtents::kKept);
  EXPECT_TRUE(warm.take_cold(kLater + std::chrono::hours(1)).empty());
}

TEST(WarmExtents, MuchGoesBackInTurns) {
  WarmExtents warm;
  warm.freed(0, WarmExtents::kKept + 3 * WarmExtents::kAtOnce - kMiB, kStart);
  int turns = 0;
  int64_t given = 0;
  for (auto cold = warm.take_cold(kLater); !cold.empty(); cold = warm.take_cold(kLater)) {
    ++turns;
    for (auto piece : cold) given += piece.size_bytes;
  }
  EXPECT_EQ(turns, 3);
  EXPECT_EQ(given, 3 * WarmExtents::kAtOnce - kMiB);
}

TEST(WarmExtents, WhatIsTakenIsNeverGivenBackAfterAnyHistory) {
  constexpr int64_t kUnit = 4 * kMiB, kUnits = 512;
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    WarmExtents warm;
    std::map<int64_t, int64_t> used;  // in units: from, count
    std::vector<bool> taken(kUnits), has_memory(kUnits);
    base::TimePoint now = kStart;
    for (int step = 0; step < 3000; ++step) {
      const int64_t from = random() % kUnits, count = 1 + random() % 8;
      bool free = from + count <= kUnits;
      for (int64_t i = from; free && i < from + count; ++i) free = !taken[i];
      if (free) {
        warm.taken(from * kUnit, count * kUnit);
        for (int64_t i = from; i < from + count; ++i) taken[i] = has_memory[i] = true;
        used[from] = count;
      } else if (!used.empty()) {
        auto victim = std::next(used.begin(), static_cast<long>(random() % used.size()));
        warm.freed(victim->first * kUnit, victim->second * kUnit, now);
        for (int64_t i = victim->first; i < victim->first + victim->second; ++i) taken[i] = false;
        used.erase(victim);
      }
      now += std::chrono::milliseconds(random() % 2000);
      for (auto piece : warm.take_cold(now)) {
        for (int64_t i = piece.offset / kUnit; i < (piece.offset + piece.size_bytes) / kUnit; ++i) {
          ASSERT_FALSE(taken[i]) << i;
          ASSERT_TRUE(has_memory[i]) << i;
          has_memory[i] = false;
        }
      }
      int64_t free_units = 0;
      for (int64_t i = 0; i < kUnits; ++i) free_units += has_memory[i] && !taken[i];
      ASSERT_EQ(warm.bytes(), free_units * kUnit);
    }
  }
}

}  // namespace
}  // namespace rayo::object_store
