// If this fails: a node whose head is away grows without end, or one whose head is slow to read.
#include "runtime/raylet/head_outbox.h"

#include <gtest/gtest.h>
#include <string>

namespace rayo::raylet {
namespace {

proto::NodeUp news(const std::string& text) {
  proto::NodeUp up;
  up.mutable_leave()->set_reason(text);
  return up;
}

TEST(HeadOutbox, ADayWithoutAHeadKeepsTheLastNews) {
  HeadOutbox outbox;
  const std::string padding(1000, 'x');
  for (int i = 0; i < 100'000; ++i) outbox.push(news(padding + std::to_string(i)));
  EXPECT_LE(outbox.bytes(), HeadOutbox::kKeptAway);
  EXPECT_GT(outbox.bytes(), HeadOutbox::kKeptAway / 2);
  std::string last;
  int before = -1;
  while (!outbox.empty()) {
    last = outbox.pop()->leave().reason();
    const int number = std::stoi(last.substr(padding.size()));
    EXPECT_TRUE(before < 0 || number == before + 1) << "in order, without a gap";
    before = number;
  }
  EXPECT_EQ(before, 99'999);
  EXPECT_EQ(outbox.bytes(), 0u);
}

TEST(HeadOutbox, AHeadThatDoesNotReadIsTold) {
  HeadOutbox outbox;
  outbox.set_away(false);
  const std::string padding(1 << 20, 'x');
  int taken = 0;
  while (outbox.push(news(padding))) ++taken;
  EXPECT_EQ(taken, 63);
  outbox.set_away(true);
  EXPECT_LE(outbox.bytes(), HeadOutbox::kKeptAway);
}

TEST(HeadOutbox, WhatCouldNotBeWrittenGoesFirst) {
  HeadOutbox outbox;
  outbox.set_away(false);
  outbox.push(news("one"));
  outbox.push(news("two"));
  auto one = outbox.pop();
  outbox.put_back(std::move(*one));
  EXPECT_EQ(outbox.pop()->leave().reason(), "one");
  EXPECT_EQ(outbox.pop()->leave().reason(), "two");
}

}  // namespace
}  // namespace rayo::raylet
