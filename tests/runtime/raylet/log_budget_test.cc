// If this fails: workers that print fill the disk, or the output of a worker that just died is thrown away first.
#include "runtime/raylet/log_budget.h"

#include <gtest/gtest.h>

namespace rayo::raylet {
namespace {

using Names = std::vector<std::string>;

constexpr LogLimits kLimits{.file_bytes = 100, .total_bytes = 300, .kept_at_cut = 10};

void carry_out(LogBudget& budget, const LogBudget::Verdict& verdict) {
  for (const auto& file : verdict.remove) budget.gone(file);
  for (const auto& file : verdict.cut) budget.size_is(file, kLimits.kept_at_cut);
}

TEST(LogBudget, AFileOverItsLimitIsCut) {
  LogBudget budget(kLimits);
  budget.size_is("a", 100);
  budget.size_is("b", 101);
  EXPECT_EQ(budget.verdict().cut, Names{"b"});
  carry_out(budget, budget.verdict());
  EXPECT_EQ(budget.total(), 110);
  EXPECT_TRUE(budget.verdict().cut.empty());
}

TEST(LogBudget, FilesOfThoseWhoEndedGoFirstAndTheOldestOfThemAtTheirHead) {
  LogBudget budget(kLimits);
  for (const char* file : {"a", "b", "c", "d"}) budget.size_is(file, 90);
  budget.ended("c");
  budget.ended("a");
  budget.ended("never heard of");
  auto verdict = budget.verdict();
  EXPECT_EQ(verdict.remove, Names{"c"});
  EXPECT_TRUE(verdict.cut.empty());
  budget.size_is("d", 400);  // cut, it is no reason to remove others
  verdict = budget.verdict();
  EXPECT_EQ(verdict.cut, Names{"d"});
  EXPECT_TRUE(verdict.remove.empty());
}

TEST(LogBudget, WhereLivingOnesAloneAreTooMuchTheLargestIsCut) {
  LogBudget budget(kLimits);
  for (int i = 0; i < 4; ++i) budget.size_is(std::string(1, static_cast<char>('a' + i)), 80 + i);
  EXPECT_EQ(budget.verdict().cut, Names{"d"});
  carry_out(budget, budget.verdict());
  EXPECT_LE(budget.total(), kLimits.total_bytes);
  budget.gone("d");
  EXPECT_EQ(budget.total(), 80 + 81 + 82);
}

}  // namespace
}  // namespace rayo::raylet
