// What a user loses if this fails: get() of an object whose home does not answer never ends, or fails at once.
#include "runtime/raylet/patience.h"

#include <gtest/gtest.h>

namespace rayo::raylet {
namespace {

using namespace std::chrono_literals;

TEST(Patience, EndsALimitAfterTheFirstTime) {
  Patience<int> patience(30s);
  const base::TimePoint start{};
  EXPECT_TRUE(patience.again(1, start));
  EXPECT_TRUE(patience.again(1, start + 29s));
  EXPECT_TRUE(patience.again(2, start + 29s));
  EXPECT_FALSE(patience.again(1, start + 30s));
  EXPECT_TRUE(patience.again(2, start + 58s));
  EXPECT_TRUE(patience.again(1, start + 60s)) << "it begins anew";
}

TEST(Patience, BeginsAnewAfterWhatWent) {
  Patience<int> patience(30s);
  const base::TimePoint start{};
  EXPECT_TRUE(patience.again(1, start));
  patience.end(1);
  EXPECT_TRUE(patience.empty());
  EXPECT_TRUE(patience.again(1, start + 45s));
}

}  // namespace
}  // namespace rayo::raylet
