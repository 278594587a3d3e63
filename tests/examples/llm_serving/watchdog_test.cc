// What a user loses if these fail: an engine that hangs keeps its requests for ever, one that works is ended, or engines without an
// endpoint hold a node's memory until somebody looks.
#include "examples/llm_serving/watchdog.h"

#include <gtest/gtest.h>

namespace serving {
namespace {

using std::chrono::seconds;

constexpr WatchdogLimits kLimits{.step = seconds(30), .orphan = seconds(60)};

TEST(Watchdog, EndsAnEngineWhoseStepDoesNotEnd) {
  EXPECT_FALSE(watchdog_verdict(kLimits, seconds(30), seconds(0))) << "a slow step is no endless one";
  const auto verdict = watchdog_verdict(kLimits, seconds(31), seconds(0));
  ASSERT_TRUE(verdict);
  EXPECT_EQ(*verdict, "a decoding step has not ended for 30 s (--step-timeout): the engine ends itself");
}

TEST(Watchdog, EndsAnEngineThatNobodyAsksWhereItOutlivesItsEndpoint) {
  EXPECT_FALSE(watchdog_verdict(kLimits, seconds(0), seconds(60)));
  const auto verdict = watchdog_verdict(kLimits, seconds(0), seconds(61));
  ASSERT_TRUE(verdict);
  EXPECT_EQ(*verdict, "no endpoint has asked for 60 s: the engine ends itself");
  EXPECT_FALSE(watchdog_verdict({.orphan = seconds(0)}, seconds(0), seconds(100'000))) << "its endpoint ends it";
}

}  // namespace
}  // namespace serving
