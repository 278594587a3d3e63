// If this fails, frames between processes of a node arrive damaged, or a broken peer takes its neighbour
// down.
#include "runtime/rpc/ring.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace rayo::rpc {
namespace {

struct Ends {
  RingPair pair;
  RingMemory memory;
  RingWriter writer;
  RingReader reader;
};

Ends make_ends() {
  auto pair = RingPair::create();
  EXPECT_TRUE(pair.ok());
  auto memory = RingMemory::map(base::Fd(::fcntl(pair->fd.get(), F_DUPFD_CLOEXEC, 0)));
  EXPECT_TRUE(memory.ok());
  const RingView ring = memory->ring(0);
  return {std::move(*pair), std::move(*memory), RingWriter(ring), RingReader(ring)};
}

FrameHeader header_of(size_t body) {
  FrameHeader header;
  header.length = static_cast<uint32_t>(body);
  return header;
}

Push push(RingWriter& writer, const std::string& body) {
  const Bytes part = std::as_bytes(std::span(body));
  return writer.push(header_of(body.size()), std::span(&part, 1));
}

TEST(Ring, FramesOfEverySizeComeOutAsTheyWentIn) {
  Ends ends = make_ends();
  std::mt19937 random(7);
  FlatBuffer out;
  std::vector<std::string> expected;
  size_t read = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string body(random() % (i % 50 == 0 ? kMaxRingFrame - sizeof(FrameHeader) + 1 : 300),
                     static_cast<char>('a' + i % 26));
    if (push(ends.writer, body) == Push::kDone) expected.push_back(std::move(body));
    if (i % 7 != 0) continue;
    ends.writer.publish();
    out.clear();
    ASSERT_TRUE(ends.reader.drain(out));
    for (Bytes records = out.bytes(); !records.empty(); ++read) {
      FrameHeader header;
      std::memcpy(&header, records.data(), sizeof header);
      ASSERT_TRUE(check_header(header));
      const std::string_view body(reinterpret_cast<const char*>(records.data() + sizeof header), header.length);
      ASSERT_EQ(body, expected[read]);
      records = records.subspan(record_bytes(header.length));
    }
  }
  EXPECT_GT(read, 10'000u);
}

TEST(Ring, NothingIsSeenBeforePublish) {
  Ends ends = make_ends();
  FlatBuffer out;
  ASSERT_EQ(push(ends.writer, "later"), Push::kDone);
  EXPECT_FALSE(ends.reader.pending());
  ASSERT_TRUE(ends.reader.drain(out));
  EXPECT_TRUE(out.empty());
  ends.writer.publish();
  EXPECT_TRUE(ends.reader.pending());
}

TEST(Ring, AFullRingAsksAndIsToldOfRoom) {
  Ends ends = make_ends();
  const std::string body(1000, 'x');
  while (push(ends.writer, body) == Push::kDone) {
  }
  ends.writer.publish();
  EXPECT_FALSE(ends.writer.ask_for_room(record_bytes(body.size())));
  FlatBuffer out;
  ASSERT_TRUE(ends.reader.drain(out));
  EXPECT_TRUE(ends.reader.writer_waits());
  EXPECT_TRUE(ends.writer.ask_for_room(record_bytes(body.size())));
  EXPECT_EQ(push(ends.writer, body), Push::kDone);
}

TEST(Ring, ItIsFullBeforeItWouldOverwrite) {
  Ends ends = make_ends();
  size_t pushed = 0;
  for (; push(ends.writer, "") == Push::kDone; ++pushed) {
  }
  EXPECT_EQ(pushed, kRingBytes / record_bytes(0));
  ends.writer.publish();
  FlatBuffer out;
  EXPECT_TRUE(ends.reader.drain(out));
}

// What a peer publishes is a claim: whatever it is, it is refused and nothing is read outside the ring.
TEST(Ring, ImpossibleIndicesAreRefused) {
  for (const uint64_t tail : {uint64_t{4}, kRingBytes + 8, ~uint64_t{0}, uint64_t{1} << 63}) {
    Ends ends = make_ends();
    ends.memory.ring(0).header->tail = tail;
    FlatBuffer out;
    EXPECT_FALSE(ends.reader.drain(out)) << tail;
  }
  for (const uint64_t head : {uint64_t{4}, uint64_t{1} << 20, ~uint64_t{0}}) {
    Ends ends = make_ends();
    while (push(ends.writer, std::string(1000, 'x')) == Push::kDone) {
    }
    ends.writer.publish();
    ends.memory.ring(0).header->head = head;
    EXPECT_FALSE(ends.writer.ask_for_room(1000)) << head;
    EXPECT_TRUE(ends.writer.corrupt()) << head;
  }
}

TEST(Ring, MemoryThatCouldVanishIsRefused) {
  base::Fd unsealed(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), kRingPairBytes), 0);
  EXPECT_FALSE(RingMemory::map(std::move(unsealed)).ok());
}

TEST(Ring, TheRayletsMarkIsSeenByBothSides) {
  Ends ends = make_ends();
  EXPECT_FALSE(ends.memory.closed());
  ends.pair.closed_mark.close();
  EXPECT_TRUE(ends.memory.closed());
  EXPECT_TRUE(ends.pair.closed_mark.closed());
}

}  // namespace
}  // namespace rayo::rpc
