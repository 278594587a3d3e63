#include "runtime/base/clock.h"

#include <gtest/gtest.h>
#include <limits>

namespace rayo::base {
namespace {

TEST(SpanOfMs, ALongOneIsForEver) {
  EXPECT_EQ(span_of_ms(250), std::chrono::milliseconds(250));
  EXPECT_EQ(span_of_ms(std::numeric_limits<int64_t>::max()), Duration::max());
  EXPECT_EQ(deadline_after(system_clock().now(), span_of_ms(std::chrono::milliseconds::max().count())), kForever);
}

TEST(SpanOfMs, ANegativeOneIsNone) {
  EXPECT_EQ(span_of_ms(-1), Duration::zero());
  EXPECT_EQ(span_of_ms(std::numeric_limits<int64_t>::min()), Duration::zero());
}

}  // namespace
}  // namespace rayo::base
