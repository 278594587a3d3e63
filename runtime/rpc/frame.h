// The frame: what flows on rings, on TCP between processes, and on a raylet's unix socket. A 64-byte header and a body,
// little-endian. docs/wire.md is its description for people; this file is where its numbers stand.
//
// A receiver copies the header out of memory that a peer can still write before it checks it (check_header), and the
// body before it decodes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace rayo::rpc {

inline constexpr uint32_t kFrameMagic = 0x4f594152;  // "RAYO"
inline constexpr uint8_t kFrameVersion = 1;
inline constexpr uint32_t kMaxFrameBody = 16u << 20;  // longer messages go in pieces or by the arena
inline constexpr uint32_t kMaxRingFrame = 32u << 10;  // header and body; longer: pieces, so that no wake-up can be lost

enum class FrameKind : uint8_t {
  kControl = 1,    // body: one proto::ToRaylet or proto::ToWorker; call_id pairs request and answer, 0 is a push
  kCall = 2,       // body: CallPrefix sections, then the arguments (CBOR array)
  kReply = 3,      // body: value (CBOR), or proto::Failure with kFlagFailure, or nothing but a size with kFlagInArena
  kCancel = 4,     // call_id names the call; function: kCancelForce, kCancelRecursive, kCancelTakeBack
  kPiece = 5,      // a part of a longer frame of this peer: the first 64 body bytes of the joined pieces are its header
  kPull = 6,       // raylet to raylet, on a connection of LinkKind::kData: body is an ObjectId (24 bytes)
  kPullReply = 7,  // call_id: the size of the object, whose bytes follow unframed; or kFlagFailure and a proto::Failure
  kProbe = 8,      // call_id names a call that its caller waits for; body: proto::CallChain
  kRefsTaken = 9,  // call_id names a call whose reply held refs: the receiver holds them itself now, its raylet knows
  kLinkIdle = 10,  // of a ring: the sender has no use for it and sends nothing more on it until it is closed or kept
  kLinkKept = 11,  // the answer to that of a side that has: it stays open
  // Streams (runtime/worker/streams.h). `call_id` is the receiver's own number of the stream, `target` the sender's.
  kStreamOpen = 12,    // to the maker: send the items here
  kStreamItem = 13,    // to the reader; sequence: from 1; sections refs and actors, then the value
  kStreamCredit = 14,  // to the maker; sequence: items taken so far, function: their bytes
  kStreamEnd = 15,     // to the reader; sequence: how many items there were; with kFlagFailure a proto::Failure
  kStreamCancel = 16,  // to the maker: nothing is read any more
};

enum FrameFlags : uint16_t {
  kFlagUrgent = 1,  // served while the receiver's user code runs
  kFlagFailure = 2,
  kFlagInArena = 4,   // the value was sealed in the callee's node's arena under the caller's object id
  kFlagRefs = 8,      // a refs section: u32 count, u32 of them arguments, then count x 24 bytes (ObjectId); those that
                      // are no arguments are inside values
  kFlagActors = 32,   // an actors section: u32 count, u32 zero, then count x 16 bytes
  kFlagMore = 64,     // of a piece: another follows; of a reply: the call goes on, and another without it says its end
  kFlagValues = 128,  // a values section: u32 count, u32 zero, then count x (u32 index of the argument ref, u32 length,
                      // the value padded to 8): small values that travel in the call, so that the callee asks nobody
  kFlagReturned = 256,  // of a reply: the task has not begun and never will here; its caller sends it elsewhere
};

inline constexpr uint64_t kCancelForce = 1;      // of a task: its process ends
inline constexpr uint64_t kCancelRecursive = 2;  // what the call has called is cancelled as well
// Of tasks sent ahead: those of the sender that have not begun are given back, but the one that call_id names.
inline constexpr uint64_t kCancelTakeBack = 4;

struct FrameHeader {
  uint32_t magic = kFrameMagic;
  uint8_t version = kFrameVersion;
  FrameKind kind = FrameKind::kControl;
  uint16_t flags = 0;
  uint32_t length = 0;       // bytes of the body
  uint32_t incarnation = 0;  // of the target actor; a call to an old one is refused
  uint64_t call_id = 0;      // of the caller's process; a call's result is the object (caller's node, caller, call_id)
  uint64_t sequence = 0;  // of the caller's calls to this incarnation, from 1: they start in this order; of kControl:
                          // how many descriptors come with it (SCM_RIGHTS, tcp_channel.h)
  uint64_t target = 0;    // short id of the actor; 0: a task
  uint64_t function = 0;  // which method or task
  uint64_t ran_us = 0;    // of a task's reply: how long it ran, from 1
  uint64_t reserved = 0;
};
static_assert(sizeof(FrameHeader) == 64);

// True where the header can be trusted to describe a frame: magic, version, known kind, length within the limit.
inline bool check_header(const FrameHeader& header) {
  return header.magic == kFrameMagic && header.version == kFrameVersion && header.kind >= FrameKind::kControl &&
         header.kind <= FrameKind::kStreamCancel && header.length <= kMaxFrameBody;
}

}  // namespace rayo::rpc
