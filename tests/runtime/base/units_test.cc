// What a user loses if these fail: "--memory 8GiB" reserves something else than 8 GiB, or a typo is taken silently.
#include "runtime/base/units.h"

#include <gtest/gtest.h>

namespace rayo::base {
namespace {

TEST(Units, ReadsSizesAsPeopleWriteThem) {
  EXPECT_EQ(*parse_size("512MiB"), 512ll << 20);
  EXPECT_EQ(*parse_size(" 1.5 GiB "), 3ll << 29);
  EXPECT_EQ(*parse_size("1000"), 1000);
  EXPECT_EQ(*parse_size("2kb"), 2000);
}

TEST(Units, RefusesWhatIsNoSizeAndSaysHowToWriteIt) {
  for (const char* text : {"", "many", "12XB", "-5", "1e99TiB", "MiB"}) {
    auto size = parse_size(text);
    ASSERT_FALSE(size.ok()) << text;
    EXPECT_EQ(size.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_FALSE(next_step(size.status()).empty());
  }
}

TEST(Units, ADurationNeedsItsUnit) {
  EXPECT_EQ(*parse_duration("500ms"), std::chrono::milliseconds(500));
  EXPECT_EQ(*parse_duration("5m"), std::chrono::minutes(5));
  EXPECT_FALSE(parse_duration("10").ok());
}

}  // namespace
}  // namespace rayo::base
