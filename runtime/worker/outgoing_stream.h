// A stream as its maker keeps it: what was written and not taken yet. Decides and does no I/O. Under the baton.
//
// Invariants
//  1. Items are sent in the order in which they were written, each once, and the end after all of them.
//  2. written - taken is at most the window; an item is added while fewer than window_bytes are not taken.
//  3. What is inside an item stays counted until the reader has taken it or is gone.
#pragma once

#include <deque>
#include <optional>

#include "runtime/worker/stream_wires.h"

namespace rayo::worker {

class OutgoingStream {
 public:
  struct Window {
    uint32_t items = 0;
    int64_t bytes = 0;
  };
  OutgoingStream(Window window, StreamWires& wires) : window_(window), wires_(wires) {}
  ~OutgoingStream() { drop_everything(); }

  // ---- the writer; pump() sends ----
  bool room() const;
  // There is room, and it has neither ended nor been cancelled.
  void write(StreamItem item);
  void end(const ErrorRecord* error);
  bool ended() const { return ended_; }
  bool cancelled() const { return cancelled_; }
  // Sends what it can; false: the link takes no more for now. The stream may be gone when it returns: a reader in this
  // process has answered by then.
  bool pump();

  // ---- the reader's frames ----
  // False: another one reads.
  bool attach(PeerId reader, uint64_t number);
  bool is_read_by(PeerId peer, uint64_t number) const { return reader_ == peer && reader_number_ == number; }
  PeerId reader() const { return reader_; }
  void on_credit(uint64_t items, uint64_t bytes);
  // Nobody reads (any more).
  void cancel();

 private:
  struct Given {
    uint64_t number = 0;
    Inner inner;
  };
  void send(StreamItem item);
  bool send_frame(rpc::FrameKind kind, uint16_t flags, uint64_t sequence, std::span<const Bytes> parts);
  void drop_everything();

  const Window window_;
  StreamWires& wires_;
  std::deque<StreamItem> waiting_;  // written, not sent
  std::deque<Given> given_;         // sent with something inside, not taken
  uint64_t written_ = 0;
  uint64_t sent_ = 0;
  uint64_t taken_ = 0;
  uint64_t bytes_written_ = 0;
  uint64_t bytes_taken_ = 0;
  PeerId reader_ = kNoPeer;
  uint64_t reader_number_ = 0;
  bool ended_ = false;
  bool end_sent_ = false;
  bool cancelled_ = false;
  std::optional<ErrorRecord> error_;
};

}  // namespace rayo::worker
