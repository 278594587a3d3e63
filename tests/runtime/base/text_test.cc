#include "runtime/base/text.h"

#include <gtest/gtest.h>

namespace rayo::base {
namespace {

TEST(LastLines, AreWhole) {
  EXPECT_EQ(last_lines("a\nb\nc\n", 2), "b\nc\n");
  EXPECT_EQ(last_lines("a\nb\n", 9), "a\nb\n");
  EXPECT_EQ(last_lines("a\nb\n", 0), "");
  EXPECT_EQ(last_lines("a\nb\n", -1), "a\nb\n");
  EXPECT_EQ(last_lines("", 3), "");
}

TEST(LastLines, AnUnfinishedOneCountsAndAnEmptyOneToo) {
  EXPECT_EQ(last_lines("a\nb\nc", 1), "c");
  EXPECT_EQ(last_lines("hello\n\n", 1), "\n");
  EXPECT_EQ(last_lines("hello\n\n", 2), "hello\n\n");
  EXPECT_EQ(last_lines("\n", 1), "\n");
}

}  // namespace
}  // namespace rayo::base
