// If this fails, `rayo serve status` tells a wrong speed.
#include "examples/llm_serving/batching/rate.h"

#include <gtest/gtest.h>

namespace serving {
namespace {

TEST(Rate, CountsTheLastTenSeconds) {
  Rate rate;
  Rate::Time now{std::chrono::seconds(1000)};
  EXPECT_EQ(rate.per_second(now), 0);
  for (int second = 0; second < 10; ++second) rate.add(now + std::chrono::seconds(second), 30);
  EXPECT_EQ(rate.per_second(now + std::chrono::seconds(9)), 30);
  EXPECT_EQ(rate.per_second(now + std::chrono::seconds(14)), 15);
  EXPECT_EQ(rate.per_second(now + std::chrono::seconds(100)), 0);
}

}  // namespace
}  // namespace serving
