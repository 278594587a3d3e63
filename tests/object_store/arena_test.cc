// What a user loses if these fail: a large value read by another process is not the one that was written.
#include "object_store/arena.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <vector>

namespace rayo::object_store {
namespace {

TEST(Arena, WhatOneViewWritesAnotherReads) {
  auto arena = Arena::create(8 << 20);
  ASSERT_TRUE(arena.ok()) << arena.status();
  auto writer = ArenaView::open(base::Fd(fcntl(arena->fd(), F_DUPFD_CLOEXEC, 0)), arena->size_bytes());
  auto reader = ArenaView::open(base::Fd(fcntl(arena->fd(), F_DUPFD_CLOEXEC, 0)), arena->size_bytes());
  ASSERT_TRUE(writer.ok() && reader.ok());
  std::vector<std::byte> value(3'000'000);
  for (size_t i = 0; i < value.size(); ++i) value[i] = static_cast<std::byte>(i * 31);
  ASSERT_TRUE(writer->write(64 * 1001, value).ok());
  auto seen = reader->read(64 * 1001, static_cast<int64_t>(value.size()));
  EXPECT_TRUE(std::equal(seen.begin(), seen.end(), value.begin(), value.end()));
}

// Large values go by another way into pages that are there already (the largest by two threads), and by the first again where
// those are small.
TEST(Arena, ALargeValueOverAnEarlierOneIsWhole) {
  auto arena = Arena::create(64 << 20);
  ASSERT_TRUE(arena.ok()) << arena.status();
  base::Fd small(memfd_create("small-pages", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(small.get(), 64 << 20), 0);
  for (const int fd : {arena->fd(), small.get()}) {
    auto writer = ArenaView::open(base::Fd(fcntl(fd, F_DUPFD_CLOEXEC, 0)), 64 << 20);
    auto reader = ArenaView::open(base::Fd(fcntl(fd, F_DUPFD_CLOEXEC, 0)), 64 << 20);
    ASSERT_TRUE(writer.ok() && reader.ok());
    const std::vector<std::byte> around(62 << 20, std::byte{0x7f});
    ASSERT_TRUE(writer->write(0, around).ok());
    for (const int64_t offset : {int64_t{0}, int64_t{64 * 1001}, int64_t{(2 << 20) - 64}, int64_t{10 << 20}}) {
      std::vector<std::byte> value(offset == 64 * 1001 ? 40'000'001 : 13'000'001);
      for (size_t i = 0; i < value.size(); ++i) value[i] = static_cast<std::byte>(i * 31 + static_cast<size_t>(offset));
      ASSERT_TRUE(writer->write(offset, value).ok());
      auto seen = reader->read(offset, static_cast<int64_t>(value.size()));
      EXPECT_TRUE(std::equal(seen.begin(), seen.end(), value.begin(), value.end())) << offset;
      EXPECT_EQ(reader->read(offset + static_cast<int64_t>(value.size()), 1)[0], std::byte{0x7f}) << offset;
      ASSERT_TRUE(writer->write(0, around).ok());
    }
  }
}

TEST(Arena, ADiscardedExtentReadsAsZeros) {
  auto arena = Arena::create(4 << 20);
  ASSERT_TRUE(arena.ok());
  auto view = ArenaView::open(base::Fd(fcntl(arena->fd(), F_DUPFD_CLOEXEC, 0)), arena->size_bytes());
  ASSERT_TRUE(view.ok());
  std::vector<std::byte> value(2 << 20, std::byte{7});
  ASSERT_TRUE(view->write(0, value).ok());
  arena->discard(0, 2 << 20);
  EXPECT_EQ(view->read(4096, 1)[0], std::byte{0});
}

TEST(Arena, AnImpossibleSizeIsAnErrorThatNamesTheFlag) {
  auto arena = Arena::create(int64_t{1} << 62);
  ASSERT_FALSE(arena.ok());
  EXPECT_NE(base::next_step(arena.status()).find("--object-store-memory"), std::string::npos);
}

}  // namespace
}  // namespace rayo::object_store
