// What a user loses if these fail: `status` shows -0.0001 of a GPU, or two actors share what only one may have.
#include "runtime/base/resources.h"

#include <gtest/gtest.h>

namespace rayo::base {
namespace {

TEST(Resources, TenTenthsAreExactlyOne) {
  Resources node{{"gpu", Amount::of(1)}};
  Resources tenth{{"gpu", Amount::of(0.1)}};
  for (int i = 0; i < 10; ++i) {
    ASSERT_GE(node.get("gpu"), tenth.get("gpu")) << i;
    node -= tenth;
  }
  EXPECT_TRUE(node.empty());
  EXPECT_LT(node.get("gpu"), tenth.get("gpu"));
}

TEST(Resources, AbsentIsZeroAndZeroIsNotStored) {
  Resources node{{"cpu", Amount::of(2)}};
  EXPECT_EQ(node.get("tpu"), Amount{});
  node.set("cpu", Amount{});
  EXPECT_TRUE(node.amounts().empty());
}

TEST(Resources, PrintsForPeople) {
  Resources ask{{"cpu", Amount::of(0.5)}, {"memory", Amount::of(1 << 30)}};
  EXPECT_EQ(ask.text(), "{cpu: 0.5, memory: 1.0 GiB}");
}

}  // namespace
}  // namespace rayo::base
