// The memory between two processes of one node: two single-producer rings of 64 KiB, one each way, in one
// memfd.
//
//   raylet:   auto pair = RingPair::create();                   // pair.fd goes to both sides with PeerLink
//             pair.closed_mark.close();                         // when one side was reaped; then ring the other's bell
//   a side:   auto memory = RingMemory::map(fd);
//             RingWriter out(memory->ring(first ? 0 : 1));      // the side with `first` writes ring 0
//             RingReader in(memory->ring(first ? 1 : 0));
//             if (out.push(header, parts) == Push::kDone) { out.publish(); doorbell.ring(my_bit, urgent); }
//
// A record is a frame (64-byte header, body) padded to 8 bytes; it may wrap. Each side keeps its own indices
// private and treats what the other publishes as a claim: an index that cannot be, or a header that is none,
// makes the ring corrupt, and the peer is dealt with as dead; never a crash, never a hang. The reader copies
// whole runs out of the ring before it looks at them.
//
// Credit: the reader publishes its head every 16 KiB and at that moment looks at `want`; a writer without
// room sets `want`, then looks at head again. No wake-up is lost, since a frame in a ring is at most half of
// it (kMaxRingFrame). One thread at a time uses a writer or reader (the process's baton).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "runtime/base/fd.h"
#include "runtime/base/status.h"
#include "runtime/rpc/flat_buffer.h"
#include "runtime/rpc/frame.h"

namespace rayo::rpc {

inline constexpr uint64_t kRingBytes = 64u << 10;
inline constexpr uint64_t kCreditBytes = 16u << 10;

struct RingHeader {
  alignas(64) std::atomic<uint64_t> tail;    // by the writer: bytes ever written
  alignas(64) std::atomic<uint64_t> head;    // by the reader: bytes ever read, published in steps
  alignas(64) std::atomic<uint32_t> want;    // by the writer: it has no room and wants to be rung
  alignas(64) std::atomic<uint32_t> closed;  // by the raylet, or by a side that leaves; never cleared
};
inline constexpr uint64_t kRingHeaderBytes = 4096;  // both rings' headers stand in the first page
inline constexpr uint64_t kRingPairBytes = kRingHeaderBytes + 2 * kRingBytes;
static_assert(2 * sizeof(RingHeader) <= kRingHeaderBytes);

struct Unmap {
  size_t bytes = 0;
  void operator()(std::byte* memory) const;
};
using Mapped = std::unique_ptr<std::byte, Unmap>;

// The header page of a pair, kept by the raylet: by it a pair is closed from outside.
class ClosedMark {
 public:
  ClosedMark() = default;
  explicit ClosedMark(Mapped page) : page_(std::move(page)) {}
  void close();
  bool closed() const;

 private:
  Mapped page_;
};

struct RingPair {
  base::Fd fd;
  ClosedMark closed_mark;
  static base::StatusOr<RingPair> create();
};

// One ring of a mapped pair.
struct RingView {
  RingHeader* header = nullptr;
  std::byte* data = nullptr;
};

class RingMemory {
 public:
  // Checks size and seals, so that the mapping cannot vanish under us.
  static base::StatusOr<RingMemory> map(base::Fd fd);

  RingView ring(int index) const;
  bool closed() const;
  // This side leaves: the other one sees it when it is rung.
  void close();

 private:
  explicit RingMemory(Mapped memory) : memory_(std::move(memory)) {}
  Mapped memory_;
};

enum class Push { kDone, kFull, kCorrupt };

class RingWriter {
 public:
  explicit RingWriter(RingView ring) : ring_(ring) {}

  // Copies a frame behind the last one; the reader sees it after publish(). `header.length` is the sum of the
  // parts; header and body are at most kMaxRingFrame.
  Push push(const FrameHeader& header, std::span<const Bytes> parts);
  // Copies as many whole records of `records` (as laid out in the ring) as fit; `taken` is their size in
  // bytes.
  Push push_records(Bytes records, size_t& taken);

  bool unpublished() const { return tail_ != published_; }
  void publish() {
    ring_.header->tail.store(tail_, std::memory_order_release);
    published_ = tail_;
  }
  // Room for `bytes`? When not, asks the reader to ring once it read on (and looks again after asking).
  bool ask_for_room(uint64_t bytes);
  void stop_asking() { ring_.header->want.store(0, std::memory_order_relaxed); }
  bool corrupt() const { return corrupt_; }  // for tests: push and ask_for_room answer it
  // Nothing of what was published is unread, as far as the reader told.
  bool drained() { return refresh() && head_ == published_; }

 private:
  bool refresh();
  bool room(uint64_t bytes) {
    return tail_ - head_ + bytes <= kRingBytes || (refresh() && tail_ - head_ + bytes <= kRingBytes);
  }
  void copy_in(const void* from, size_t bytes);

  RingView ring_;
  uint64_t tail_ = 0;
  uint64_t published_ = 0;
  uint64_t head_ = 0;  // what the reader published, checked
  bool corrupt_ = false;
};

class RingReader {
 public:
  explicit RingReader(RingView ring) : ring_(ring) {}

  bool pending() const { return ring_.header->tail.load(std::memory_order_acquire) != head_; }
  // Appends everything that the writer published to `out` (whole records, by the writer's word; the frames in
  // it are checked by whoever parses it). False: the ring is corrupt.
  bool drain(FlatBuffer& out);
  // After drain: true where the writer waits for room and is to be rung.
  bool writer_waits();

 private:
  RingView ring_;
  uint64_t head_ = 0;
  uint64_t published_ = 0;
  bool credit_given_ = false;
};

// A record's size in a ring: header and body, padded.
constexpr uint64_t record_bytes(uint64_t body) { return (sizeof(FrameHeader) + body + 7) & ~uint64_t{7}; }

}  // namespace rayo::rpc
