// If this fails: one worker that prints without end floods the driver's terminal or hides the others.
#include "runtime/raylet/log_relay.h"

#include <gtest/gtest.h>

#include "runtime/base/ids.h"

namespace rayo::raylet {
namespace {

using namespace std::chrono_literals;

TEST(LogRelay, ABurstPassesAndThenTheRate) {
  LogRelay relay({.lines_per_second = 100, .burst = 500});
  auto loud = base::random_id<ProcessId>(), quiet = base::random_id<ProcessId>();
  base::TimePoint now{1h};
  auto first = relay.admit(loud, 800, now);
  EXPECT_EQ(first.lines, 500);
  EXPECT_EQ(first.dropped, 300);
  EXPECT_EQ(relay.admit(quiet, 3, now).lines, 3);
  EXPECT_EQ(relay.admit(loud, 800, now + 1s).lines, 100);
  EXPECT_EQ(relay.admit(loud, 800, now + 1h).lines, 500);  // never more than the burst
}

}  // namespace
}  // namespace rayo::raylet
