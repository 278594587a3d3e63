// One peer on the same node as the engine sees it: both rings, its doorbell, the frames that wait for room,
// and the pieces of a long frame that have come so far. Under the baton. Nothing here blocks; a peer that
// breaks the protocol makes `broken` true.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "runtime/base/status.h"
#include "runtime/rpc/doorbell.h"
#include "runtime/rpc/flat_buffer.h"
#include "runtime/rpc/ring.h"
#include "runtime/worker/engine.h"

namespace rayo::worker {

class RingPeer {
 public:
  static base::StatusOr<std::unique_ptr<RingPeer>> open(RingLink link);

  // Puts a frame (header.length set) into the ring or behind what waits already. Seen by the peer after
  // flush().
  void send(const rpc::FrameHeader& header, std::span<const Bytes> parts);
  // Shows the peer what was sent, as far as there is room, and rings it.
  void flush();
  // The same without waking a peer that sleeps: flush() follows soon.
  void publish();
  // Rings whatever the doorbell says, where the peer has not read everything: the net under the wake-ups.
  void flush_regardless();
  // Before this process sleeps or runs user code: an urgent frame is not left behind by a peer that went into
  // user code.
  void kick();
  bool wants_kick() const { return kick_; }

  // Hands over every whole frame that the peer has published: on_frame(header, body), false stops. What is
  // read is copied to `scratch` first.
  template <class OnFrame>
  void receive(rpc::FlatBuffer& scratch, OnFrame&& on_frame);

  bool broken() const { return broken_; }
  bool closed() const { return memory_.closed(); }
  bool pending() const { return in_.pending(); }
  // More than this can never be honest: a reader that lets us hold it is none.
  bool flooded() const { return backlog_.size() > kHardBacklog; }
  size_t backlog() const { return backlog_.size(); }
  uint32_t peer_bit() const { return peer_bit_; }
  uint32_t core() const { return bell_.core(); }
  // This side leaves: what it published stays readable, and the peer is rung.
  void leave();

 private:
  // 1024 answers of 100 KiB, what an honest window can make wait, and some.
  static constexpr size_t kHardBacklog = 128u << 20;

  RingPeer(rpc::RingMemory memory, const RingLink& link, rpc::PeerDoorbell bell);
  void send_in_pieces(const rpc::FrameHeader& header, std::span<const Bytes> parts);
  void put(const rpc::FrameHeader& header, std::span<const Bytes> parts);
  bool move_backlog();
  void ring(bool urgent, bool kick);
  // A record's frame; false where it cannot be one. `size` is the record's.
  bool parse(Bytes records, rpc::FrameHeader& header, size_t& size);
  // Adds a piece; true where the frame is whole (header and body then lie in joined_).
  bool join(const rpc::FrameHeader& piece, Bytes body, rpc::FrameHeader& whole);

  rpc::RingMemory memory_;
  rpc::RingWriter out_;
  rpc::RingReader in_;
  rpc::PeerDoorbell bell_;
  uint32_t my_bit_;
  uint32_t peer_bit_;
  rpc::FlatBuffer backlog_;  // records
  rpc::FlatBuffer joined_;
  uint64_t rung_regardless_ = 0;  // times in a row with the same bytes unread
  bool urgent_ = false;           // an urgent frame waits for flush, or for room
  bool marked_ = false;           // published without a look at whether the peer sleeps
  bool kick_ = false;
  bool asked_ = false;  // for room
  bool broken_ = false;
};

template <class OnFrame>
void RingPeer::receive(rpc::FlatBuffer& scratch, OnFrame&& on_frame) {
  scratch.clear();
  if (!in_.drain(scratch)) broken_ = true;
  if (in_.writer_waits()) ring(true, true);
  Bytes records = scratch.bytes();
  while (!records.empty() && !broken_) {
    rpc::FrameHeader header;
    size_t size = 0;
    if (!parse(records, header, size)) break;
    Bytes body = records.subspan(sizeof header, header.length);
    if (header.kind != rpc::FrameKind::kPiece) {
      if (!on_frame(header, body)) return;
    } else if (rpc::FrameHeader whole; join(header, body, whole)) {
      const bool go_on = on_frame(whole, joined_.bytes().subspan(sizeof whole));
      joined_.clear();
      if (!go_on) return;
    }
    records = records.subspan(size);
  }
}

}  // namespace rayo::worker
