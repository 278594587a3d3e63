// A reader of a stream loses if these fail: half characters on the screen, or a stop string in the answer.
#include "examples/llm_serving/batching/stop_matcher.h"

#include <gtest/gtest.h>
#include <random>

namespace serving {
namespace {

constexpr const char* kReplacement = "\xEF\xBF\xBD";

TEST(StopMatcher, AStopStringOverTokenBordersIsNeverShown) {
  StopMatcher matcher({"END", "\n\n"});
  EXPECT_EQ(matcher.push("The E"), "The ");
  EXPECT_EQ(matcher.push("N"), "");
  EXPECT_EQ(matcher.push("D of it"), "");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.finish(), "");
  EXPECT_EQ(matcher.push("more"), "");
}

TEST(StopMatcher, WhatOnlyLookedLikeAStopStringIsShownLater) {
  StopMatcher matcher({"ENDE"});
  EXPECT_EQ(matcher.push("EN"), "");
  EXPECT_EQ(matcher.push("EN"), "EN");
  EXPECT_FALSE(matcher.stopped());
  EXPECT_EQ(matcher.finish(), "EN");
}

TEST(StopMatcher, TheEarliestStopStringEndsTheText) {
  StopMatcher matcher({"three", "two"});
  EXPECT_EQ(matcher.push("one two three"), "one ");
  EXPECT_TRUE(matcher.stopped());
}

TEST(StopMatcher, ACharacterSplitOverTokensComesWhole) {
  StopMatcher matcher({});
  EXPECT_EQ(matcher.push("a\xF0\x9F"), "a");
  EXPECT_EQ(matcher.push("\x98"), "");
  EXPECT_EQ(matcher.push("\x80"
                         "b"),
            "\xF0\x9F\x98\x80"
            "b");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, BrokenBytesAreReplacedOnlyWhenNothingCanMendThem) {
  StopMatcher matcher({});
  EXPECT_EQ(matcher.push("\xE4\xBD"), "");
  EXPECT_EQ(matcher.push("x"), std::string(kReplacement) + "x");
  EXPECT_EQ(matcher.push("\xE4"), "");
  EXPECT_EQ(matcher.finish(), kReplacement);
  EXPECT_EQ(repaired("\xC0\x80\xED\xA0\x80ok"),
            std::string(kReplacement) + kReplacement + kReplacement + kReplacement + kReplacement + "ok");
}

TEST(StopMatcher, AStopStringMayBeginInsideACharactersWait) {
  StopMatcher matcher({"\xE4\xBD\xA0"});
  EXPECT_EQ(matcher.push("hi \xE4"), "hi ");
  EXPECT_EQ(matcher.push("\xBD\xA0!"), "");
  EXPECT_TRUE(matcher.stopped());
}

// Any cutting of the same bytes shows the same text.
TEST(StopMatcher, TheCutsBetweenTokensChangeNothing) {
  const std::string text = "na\xC3\xAFve \xE4\xBD\xA0\xE5\xA5\xBD \xF0\x9F\x98\x80 ababac tail\xF0\x9F";
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    StopMatcher matcher({"abac", "zzz"});
    std::string shown;
    for (size_t at = 0; at < text.size() && !matcher.stopped();) {
      const size_t n = 1 + random() % 5;
      shown += matcher.push(std::string_view(text).substr(at, n));
      at += n;
    }
    shown += matcher.finish();
    EXPECT_EQ(shown, "na\xC3\xAFve \xE4\xBD\xA0\xE5\xA5\xBD \xF0\x9F\x98\x80 ab") << "seed " << seed;
  }
}

}  // namespace
}  // namespace serving
