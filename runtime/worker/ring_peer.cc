#include "runtime/worker/ring_peer.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace rayo::worker {
namespace {

using rpc::FrameHeader;
using rpc::FrameKind;

// A reader tells of what it has read in steps of 16 KiB, so what looks unread may only be untold.
constexpr uint64_t kRegardless = 10;
constexpr size_t kMaxPiece = rpc::kMaxRingFrame - sizeof(FrameHeader);

// A sequence of byte ranges that is cut into pieces.
class Cutter {
 public:
  explicit Cutter(std::span<const Bytes> parts) : parts_(parts) {}
  bool more() const { return !parts_.empty(); }
  // The next at most `most` bytes, as ranges; `size` is their sum.
  const std::vector<Bytes>& cut(size_t most, size_t& size) {
    ranges_.clear();
    size = 0;
    while (!parts_.empty() && size < most) {
      Bytes rest = parts_.front().subspan(used_);
      Bytes now = rest.first(std::min(rest.size(), most - size));
      if (!now.empty()) ranges_.push_back(now);
      size += now.size();
      used_ += now.size();
      if (now.size() == rest.size()) skip();
    }
    while (!parts_.empty() && parts_.front().size() == used_) skip();
    return ranges_;
  }

 private:
  void skip() {
    parts_ = parts_.subspan(1);
    used_ = 0;
  }
  std::span<const Bytes> parts_;
  size_t used_ = 0;
  std::vector<Bytes> ranges_;
};

}  // namespace

base::StatusOr<std::unique_ptr<RingPeer>> RingPeer::open(RingLink link) {
  if (link.my_bit >= rpc::kDoorbellBits || link.peer_bit >= rpc::kDoorbellBits)
    return base::failed(absl::StatusCode::kInvalidArgument, "a ring's doorbell bit is out of range");
  RAYO_ASSIGN_OR_RETURN(rpc::RingMemory memory, rpc::RingMemory::map(std::move(link.memory)));
  RAYO_ASSIGN_OR_RETURN(rpc::PeerDoorbell bell, rpc::PeerDoorbell::map(std::move(link.peer_bell)));
  return std::unique_ptr<RingPeer>(new RingPeer(std::move(memory), link, std::move(bell)));
}

RingPeer::RingPeer(rpc::RingMemory memory, const RingLink& link, rpc::PeerDoorbell bell)
    : memory_(std::move(memory)),
      out_(memory_.ring(link.first ? 0 : 1)),
      in_(memory_.ring(link.first ? 1 : 0)),
      bell_(std::move(bell)),
      my_bit_(link.my_bit),
      peer_bit_(link.peer_bit) {}

void RingPeer::send(const FrameHeader& header, std::span<const Bytes> parts) {
  if ((header.flags & rpc::kFlagUrgent) != 0) urgent_ = true;
  if (header.length > kMaxPiece)
    send_in_pieces(header, parts);
  else
    put(header, parts);
}

void RingPeer::send_in_pieces(const FrameHeader& header, std::span<const Bytes> parts) {
  std::vector<Bytes> all{std::as_bytes(std::span(&header, 1))};
  all.insert(all.end(), parts.begin(), parts.end());
  Cutter cutter(all);
  while (cutter.more()) {
    FrameHeader piece;
    size_t size = 0;
    const std::vector<Bytes>& ranges = cutter.cut(kMaxPiece, size);
    piece.kind = FrameKind::kPiece;
    piece.length = static_cast<uint32_t>(size);
    piece.flags = static_cast<uint16_t>((header.flags & rpc::kFlagUrgent) | (cutter.more() ? rpc::kFlagMore : 0));
    put(piece, ranges);
  }
}

void RingPeer::put(const FrameHeader& header, std::span<const Bytes> parts) {
  if (backlog_.empty() && !broken_) {
    const rpc::Push pushed = out_.push(header, parts);
    if (pushed == rpc::Push::kDone) return;
    broken_ |= pushed == rpc::Push::kCorrupt;
  }
  backlog_.append(&header, sizeof header);
  for (Bytes part : parts) backlog_.append(part.data(), part.size());
  constexpr uint64_t kZero = 0;
  backlog_.append(&kZero, rpc::record_bytes(header.length) - sizeof header - header.length);
}

void RingPeer::ring(bool urgent, bool kick) {
  rung_regardless_ = 0;
  bell_.ring(my_bit_, urgent, std::exchange(marked_, false));
  kick_ |= kick;
}

void RingPeer::publish() {
  if (urgent_ || !backlog_.empty()) return flush();
  if (broken_ || !out_.unpublished()) return;
  out_.publish();
  bell_.mark(my_bit_);
  marked_ = true;
}

// Moves what waits into the ring; false where it found no room for all of it and has asked for more.
bool RingPeer::move_backlog() {
  while (!backlog_.empty()) {
    size_t taken = 0;
    const rpc::Push pushed = out_.push_records(backlog_.bytes(), taken);
    backlog_.consume(taken);
    if (pushed == rpc::Push::kDone) break;
    broken_ |= pushed == rpc::Push::kCorrupt;
    if (broken_) return false;
    FrameHeader next;
    std::memcpy(&next, backlog_.bytes().data(), sizeof next);
    out_.publish();
    if (!out_.ask_for_room(rpc::record_bytes(next.length))) return false;
  }
  if (asked_) out_.stop_asking();
  return true;
}

void RingPeer::flush() {
  if (broken_) return;
  const bool unpublished = out_.unpublished();
  const size_t waited = backlog_.size();
  const bool blocked = !move_backlog();
  if (out_.unpublished()) out_.publish();
  const bool newly_blocked = blocked && !asked_;
  asked_ = blocked;
  // A reader in a long method must read on for us. One in a short method does so by itself, soon: it is kicked only for
  // urgent frames, those that wait behind others included.
  if (unpublished || marked_ || backlog_.size() != waited || newly_blocked) ring(urgent_ || blocked, urgent_);
  urgent_ = urgent_ && blocked;
}

void RingPeer::flush_regardless() {
  flush();
  if (broken_ || out_.drained() || rung_regardless_ >= kRegardless) return;
  ++rung_regardless_;
  bell_.ring_regardless(my_bit_);
}

void RingPeer::kick() {
  kick_ = false;
  bell_.kick(my_bit_);
}

void RingPeer::leave() {
  flush();
  memory_.close();
  bell_.ring(my_bit_, true);
  bell_.kick(my_bit_);
}

bool RingPeer::parse(Bytes records, FrameHeader& header, size_t& size) {
  if (records.size() >= sizeof header) {
    std::memcpy(&header, records.data(), sizeof header);
    size = rpc::record_bytes(header.length);
    if (rpc::check_header(header) && header.length <= kMaxPiece && size <= records.size()) return true;
  }
  broken_ = true;
  return false;
}

bool RingPeer::join(const FrameHeader& piece, Bytes body, FrameHeader& whole) {
  if (joined_.size() + body.size() > sizeof whole + rpc::kMaxFrameBody) {
    broken_ = true;
    return false;
  }
  joined_.append(body.data(), body.size());
  if ((piece.flags & rpc::kFlagMore) != 0) return false;
  if (joined_.size() >= sizeof whole) std::memcpy(&whole, joined_.bytes().data(), sizeof whole);
  broken_ = joined_.size() < sizeof whole || !rpc::check_header(whole) || whole.kind == FrameKind::kPiece ||
            whole.length != joined_.size() - sizeof whole;
  return !broken_;
}

}  // namespace rayo::worker
