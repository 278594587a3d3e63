// If these fail: a hundred workers that warn of the same thing bury what matters, or a line of one of them is lost.
#include "runtime/worker/line_folder.h"

#include <gtest/gtest.h>

namespace rayo::worker {
namespace {

constexpr base::TimePoint kStart{std::chrono::hours(1)};

LineFolder::Line line(std::string text) { return {"Worker", std::move(text), false}; }

TEST(LineFolderTest, WhatOthersSayAlikeIsToldOnceWithTheirNumber) {
  LineFolder folder;
  EXPECT_TRUE(folder.take(line("no GPU"), 1, kStart));
  EXPECT_FALSE(folder.take(line("no GPU"), 2, kStart));
  EXPECT_FALSE(folder.take(line("no GPU"), 3, kStart + std::chrono::seconds(4)));
  EXPECT_EQ(folder.next_due(), kStart + LineFolder::kWindow);
  EXPECT_TRUE(folder.due(kStart + std::chrono::seconds(4)).empty());
  const auto due = folder.due(kStart + LineFolder::kWindow);
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due[0].line.text, "no GPU");
  EXPECT_EQ(due[0].times, 2);
  EXPECT_EQ(folder.next_due(), base::kForever);
  EXPECT_TRUE(folder.take(line("no GPU"), 2, kStart + LineFolder::kWindow));  // a new one
}

TEST(LineFolderTest, AWorkerThatRepeatsItselfIsShown) {
  LineFolder folder;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(folder.take(line("tick"), 1, kStart));
  EXPECT_TRUE(folder.due(kStart + LineFolder::kWindow).empty());
}

TEST(LineFolderTest, OtherTextsSourcesAndStreamsAreOtherLines) {
  LineFolder folder;
  EXPECT_TRUE(folder.take(line("a"), 1, kStart));
  EXPECT_TRUE(folder.take(line("b"), 2, kStart));
  EXPECT_TRUE(folder.take({"Other", "a", false}, 2, kStart));
  EXPECT_TRUE(folder.take({"Worker", "a", true}, 2, kStart));
}

TEST(LineFolderTest, ItRemembersSoManyLinesAndShowsTheRest) {
  LineFolder folder;
  for (size_t i = 0; i < LineFolder::kMostLines; ++i) EXPECT_TRUE(folder.take(line(std::to_string(i)), 1, kStart));
  EXPECT_TRUE(folder.take(line("one more"), 1, kStart));
  EXPECT_TRUE(folder.take(line("one more"), 2, kStart));
  EXPECT_FALSE(folder.take(line("7"), 2, kStart));
}

TEST(LineFolderTest, AProgressBarIsItsLastState) {
  EXPECT_EQ(last_state("10%\r50%\r100%"), "100%");
  EXPECT_EQ(last_state("10%\r50%\r"), "50%");
  EXPECT_EQ(last_state("plain"), "plain");
  EXPECT_EQ(last_state("\r"), "");
}

}  // namespace
}  // namespace rayo::worker
