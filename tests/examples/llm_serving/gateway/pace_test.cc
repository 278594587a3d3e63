// What a user loses if these fail: new questions wait behind an engine that hangs, or a slow model's prefixes are computed anew.
#include "examples/llm_serving/gateway/pace.h"

#include <gtest/gtest.h>

namespace serving::gateway {
namespace {

using std::chrono::milliseconds;

const Instant kStart{};

Instant at(int ms) { return kStart + milliseconds(ms); }

EngineStatus computing(double seconds, double usual = 0.02) {
  return {.state = "ready", .step_under_way_s = seconds, .usual_step_s = usual};
}

TEST(Pace, OneThatAnswersBetweenStepsGoesOn) {
  Pace pace(kStart);
  for (int ms = 500; ms <= 60'000; ms += 500) {
    EXPECT_FALSE(pace.hangs(at(ms - 1)));
    pace.answered(computing(0), at(ms));
  }
}

TEST(Pace, AStepThatDoesNotEndHangsHoweverOftenItsStatusIsAnswered) {
  Pace pace(kStart);
  pace.answered(computing(0.4), at(500));
  EXPECT_FALSE(pace.hangs(at(1000)));
  pace.answered(computing(0.9), at(1000));
  pace.answered(computing(1.4), at(1500));
  EXPECT_TRUE(pace.hangs(at(1501)));
  pace.answered(computing(0.1), at(2000));  // it has ended: this is another one
  EXPECT_FALSE(pace.hangs(at(2001)));
}

TEST(Pace, OneThatAnswersNothingHangs) {
  Pace pace(kStart);
  pace.answered(computing(0), at(500));
  EXPECT_FALSE(pace.hangs(at(1499)));
  EXPECT_TRUE(pace.hangs(at(1501)));
}

TEST(Pace, TokensAreASign) {
  Pace pace(kStart);
  pace.stepped(at(900));
  EXPECT_FALSE(pace.hangs(at(1800)));
  pace.answered(computing(1.5), at(1800));  // older than the token: it was on its way
  EXPECT_FALSE(pace.hangs(at(1850)));
}

TEST(Pace, ASlowModelHasTimeForAFewOfItsUsualSteps) {
  Pace pace(kStart);
  pace.answered(computing(0.3, 2.0), at(500));
  EXPECT_FALSE(pace.hangs(at(8000)));
  EXPECT_TRUE(pace.hangs(at(8300)));
}

}  // namespace
}  // namespace serving::gateway
