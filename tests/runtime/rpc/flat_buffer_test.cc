// If this fails, bytes on their way get lost or mixed up, or a process keeps the memory of its largest burst for ever.
#include "runtime/rpc/flat_buffer.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <string>
#include <string_view>

namespace rayo::rpc {
namespace {

std::string_view text(const FlatBuffer& buffer) {
  return {reinterpret_cast<const char*>(buffer.bytes().data()), buffer.size()};
}

TEST(FlatBuffer, WhatIsAppendedComesOutInOrderWhileItMoves) {
  FlatBuffer buffer;
  std::string expected;
  for (int i = 0; i < 10'000; ++i) {
    const std::string piece(static_cast<size_t>(i % 300), static_cast<char>('a' + i % 26));
    buffer.append(piece.data(), piece.size());
    expected += piece;
    const size_t taken = std::min(expected.size(), static_cast<size_t>(i % 299));
    buffer.consume(taken);
    expected.erase(0, taken);
    ASSERT_EQ(text(buffer), expected);
  }
}

TEST(FlatBuffer, TheMemoryOfABurstIsGivenBackWhenItHasRunEmpty) {
  const std::string large(FlatBuffer::kKept + 1, 'x'), small(1000, 'y');
  for (const bool consumed : {true, false}) {
    FlatBuffer buffer;
    buffer.append(large.data(), large.size());
    if (consumed)
      buffer.consume(large.size());
    else
      buffer.clear();
    EXPECT_EQ(buffer.capacity(), 0u);
    buffer.append(small.data(), small.size());
    EXPECT_EQ(text(buffer), small);
    buffer.clear();
    EXPECT_GT(buffer.capacity(), 0u) << "a small one is kept for the next";
  }
}

}  // namespace
}  // namespace rayo::rpc
