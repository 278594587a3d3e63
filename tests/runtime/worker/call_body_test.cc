// If these fail: refs and handles get lost on the way, or a hostile peer's lengths are believed.
#include "runtime/worker/call_body.h"

#include <gtest/gtest.h>
#include <random>

namespace rayo::worker {
namespace {

std::vector<std::byte> body_of(const BodyWriter& writer, size_t rest) {
  std::vector<std::byte> body(writer.bytes().begin(), writer.bytes().end());
  body.resize(body.size() + rest, std::byte{5});
  return body;
}

TEST(CallBodyTest, WhatIsWrittenIsRead) {
  const ObjectId ids[] = {{1, 2, 3}, {}, {4, 5, 6}};
  const ActorId actors[] = {{7, 8}};
  const std::byte value[] = {std::byte{1}, std::byte{2}, std::byte{3}};
  const InlineValue values[] = {{1, value}};
  BodyWriter writer;
  writer.refs(ids, 2);
  writer.actors(actors);
  writer.values(values);
  const auto body = body_of(writer, 11);
  auto view = read_body(writer.flags(), body);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->refs, std::vector<ObjectId>(ids, ids + 3));
  EXPECT_EQ(view->arguments, 2u);
  EXPECT_EQ(view->actors, std::vector<ActorId>(actors, actors + 1));
  ASSERT_EQ(view->values.size(), 1u);
  EXPECT_EQ(view->values[0].index, 1u);
  EXPECT_EQ(view->values[0].bytes.size(), 3u);
  EXPECT_EQ(view->rest.size(), 11u);
}

TEST(CallBodyTest, NothingIsNoSection) {
  BodyWriter writer;
  writer.refs({}, 0);
  writer.actors({});
  writer.values({});
  EXPECT_EQ(writer.flags(), 0);
  EXPECT_TRUE(writer.bytes().empty());
}

TEST(CallBodyTest, WildBodiesAreRefusedOrRead) {
  std::mt19937 random(11);
  for (int i = 0; i < 200'000; ++i) {
    std::vector<std::byte> body(random() % 120);
    for (std::byte& b : body) b = static_cast<std::byte>(random() % 4 == 0 ? random() : random() % 3);
    auto view = read_body(static_cast<uint16_t>(random()), body);
    if (!view) continue;
    EXPECT_LE(view->arguments, view->refs.size());
    for (const InlineValue& value : view->values) EXPECT_LT(value.index, view->arguments);
    EXPECT_LE(view->rest.size(), body.size());
  }
}

}  // namespace
}  // namespace rayo::worker
