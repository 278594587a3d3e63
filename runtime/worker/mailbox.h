// The calls that reached this process and have not started. They start in the order in which they came; one whose
// arguments are still on their way holds up those of its own peer behind it, and nobody else (so that an actor cannot
// wait for itself through two callers).
//
//   mailbox.push(peer, header, body, nullptr);
//   IncomingCall call;
//   while (mailbox.take(call)) run(call);
//
// The common call is a record in a flat buffer: nothing is allocated for it. No I/O; under the baton.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "runtime/rpc/flat_buffer.h"
#include "runtime/rpc/frame.h"
#include "runtime/worker/call_body.h"
#include "runtime/worker/engine.h"
#include "runtime/worker/object_table.h"

namespace rayo::worker {

class Mailbox;

// The arguments of a call that names objects: their values may have to be fetched first.
struct CallRefs {
  std::vector<internal::ObjectHandle> arguments;  // counted; no slot where the value came in the frame
  std::vector<ObjectId> named;                    // every id of the call: does anybody here still hold it at the end?
  std::vector<ActorId> actors;                    // named handles of actors
  size_t unready = 0;
};

struct IncomingCall {
  PeerId peer = kNoPeer;
  rpc::FrameHeader header;
  std::vector<std::byte> body;
  std::unique_ptr<CallRefs> refs;
  uint64_t ran_us = 0;  // of a task that has run
};

class Mailbox {
 public:
  void push(PeerId peer, const rpc::FrameHeader& header, ByteView body, std::unique_ptr<CallRefs> refs);
  // The arguments of a call of that peer arrived (its CallRefs::unready is 0 now).
  void unblock(PeerId peer);
  // Whether take may find one; cheap, for the loop that waits.
  bool may_take() const { return !taking_.empty() || !arrived_.empty() || !unblocked_.empty(); }
  // The next call that may start. `out` keeps its buffer between calls.
  bool take(IncomingCall& out);
  // Tasks of that peer that stand ready and not started, but `keep`: out of here, in their order.
  std::vector<IncomingCall> take_back(PeerId peer, uint64_t keep);
  // Calls not started, in the order of take, as far as that can be told.
  size_t size() const { return size_; }
  // Whether that call of the peer waits here; nullopt: any of its calls.
  bool holds(PeerId peer, std::optional<uint64_t> call_id = std::nullopt) const;

 private:
  struct Record {
    PeerId peer;
    rpc::FrameHeader header;
    CallRefs* refs;  // owned while the record is here
  };
  static void append(rpc::FlatBuffer& to, PeerId peer, const rpc::FrameHeader& header, ByteView body,
                     std::unique_ptr<CallRefs> refs);
  bool take_flat(IncomingCall& out);
  static bool take_flat(rpc::FlatBuffer& from, IncomingCall& out);
  static bool holds_flat(const rpc::FlatBuffer& records, PeerId peer, std::optional<uint64_t> call_id);

  // Records, each with its body, padded to 8. What arrives goes into the one while the other is emptied: both stay as
  // small as what comes at a time.
  rpc::FlatBuffer taking_;
  rpc::FlatBuffer arrived_;
  size_t size_ = 0;
  std::unordered_map<PeerId, std::deque<IncomingCall>> blocked_;  // the first of each waits for its arguments
  std::deque<PeerId> unblocked_;
};

}  // namespace rayo::worker
