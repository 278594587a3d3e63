// A stream as its reader keeps it: the way to the maker, the items that have come, how it ended. Decides and does no
// I/O. Under the baton.
//
// Invariants
//  1. Items are handed out in the order of their numbers, from 1 without a gap, and the end after all of them.
//  2. What has come and was not taken is within the window: a maker that sends more ends the stream.
//  3. The maker is told that an item with refs was taken only when the homes know of our handles.
//  4. It ends: with the maker's word, with its death record, or with the link's.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "runtime/worker/call_body.h"
#include "runtime/worker/stream_wires.h"

namespace rayo::worker {

class IncomingStream : public CallOwner {
 public:
  // `number` names it in this process.
  IncomingStream(uint64_t number, const internal::StreamAddress& address, StreamWires& wires)
      : number_(number), address_(address), wires_(wires) {}
  ~IncomingStream() override;

  // Asks the maker for items, once.
  void open();
  bool opened() const { return state_ != State::kFresh; }
  // An item or the end is there.
  bool readable() const { return !items_.empty() || over_; }
  // The next item; nothing where none is there.
  std::optional<StreamItem> take();
  // Why the stream is over, where its end was no good one.
  const ErrorRecord* error() const { return error_ ? &*error_ : nullptr; }
  // Wants no more; what has come is dropped.
  void cancel();
  // Once: the maker may forget the stream.
  void leave();
  void on_maker(const proto::ActorInfo& info);
  // Nobody can tell about the maker any more.
  void on_failure(const ErrorRecord& why) { finish(why); }

  // Frames of the maker.
  void on_item(const rpc::FrameHeader& header, ByteView body);
  void on_end(const rpc::FrameHeader& header, ByteView body);

  PeerId link() const override { return link_; }
  bool idle() const override { return over_; }  // as long as items may come, the link is in use
  void unlinked() override { link_ = kNoPeer; }
  void answered(uint64_t, uint64_t) override {}
  void given_up(uint64_t) override {}
  void linked(PeerId peer) override;
  void link_failed(const ErrorRecord& why) override;
  void link_lost() override;
  void peer_gone(const proto::DeathRecord& death) override;
  void on_deadline(base::TimePoint now) override;
  std::string who() const override;

  const internal::StreamAddress& address() const { return address_; }

 private:
  enum class State {
    kFresh,
    kLinking,
    kOpen,
    kLost,  // the link broke and nobody said why yet
    kOver,  // nothing more will come
  };

  rpc::FrameHeader frame(rpc::FrameKind kind) const;
  void tell(rpc::FrameKind kind);
  void tell_confirmed(rpc::FrameKind kind);
  void finish(std::optional<ErrorRecord> error);
  void await_verdict(const ErrorRecord& why);
  ErrorRecord died(const proto::DeathRecord& death) const;

  const uint64_t number_;
  const internal::StreamAddress address_;
  StreamWires& wires_;
  State state_ = State::kFresh;
  PeerId link_ = kNoPeer;
  std::deque<StreamItem> items_;
  uint64_t bytes_here_ = 0;  // of items_
  uint64_t received_ = 0;
  uint64_t taken_ = 0;
  uint64_t bytes_taken_ = 0;
  uint64_t credited_ = 0;
  uint64_t bytes_credited_ = 0;
  bool over_ = false;
  std::optional<ErrorRecord> error_;
  std::optional<ErrorRecord> last_word_;  // of a death, while items of before may still be in the link
  bool had_inner_ = false;                // an item came with refs or handles inside
  bool left_ = false;
  bool lost_link_ = false;                    // it stood once
  base::TimePoint verdict_ = base::kForever;  // until when kLost waits for a reason
  ErrorRecord why_;                           // of kLost
};

}  // namespace rayo::worker
