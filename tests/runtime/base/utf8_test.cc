// If these fail: `list --json` is no JSON, or a text that is one is changed.
#include <gtest/gtest.h>

#include "runtime/base/text.h"

namespace rayo::base {
namespace {

TEST(Text, WhatIsNotUtf8IsReplaced) {
  const std::string good = "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80";
  EXPECT_EQ(as_utf8(good), good);
  EXPECT_TRUE(is_utf8(good) && is_utf8(""));
  const std::string bad = "\xef\xbf\xbd";
  EXPECT_EQ(as_utf8("a\xff"), "a" + bad);
  EXPECT_EQ(as_utf8("\xc3"), bad);
  EXPECT_EQ(as_utf8("\xc0\x80"), bad + bad);
  EXPECT_EQ(as_utf8("\xed\xa0\x80"), bad + bad + bad);
  EXPECT_EQ(as_utf8("\xe2\x82"
                    "x"),
            bad + bad + "x");
  for (const char* text : {"a\xff", "\xc3", "\xc0\x80", "\xed\xa0\x80"}) EXPECT_FALSE(is_utf8(text)) << text;
}

}  // namespace
}  // namespace rayo::base
