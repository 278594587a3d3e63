// The streams that this process writes and reads, by number: a written one by its marker's counter (call_id of the
// reader's frames), a read one by a number of our own (call_id of the maker's frames).
//
// The marker is an object of the maker's that stands for the right to read: whoever holds the Stream counts it. When
// nobody does any more the maker is told (on_unheld), so a Stream that is dropped unread, in whatever process or value,
// ends like one that is cancelled. Under the baton.
#pragma once

#include <unordered_map>

#include "runtime/worker/incoming_stream.h"
#include "runtime/worker/outgoing_stream.h"

namespace rayo::worker {

class Streams {
 public:
  explicit Streams(StreamWires wires) : wires_(std::move(wires)) {}

  // ---- the API's ends ----
  // Its marker, one handle counted: number and identity of the stream.
  ObjectSlot& make(OutgoingStream::Window window);
  OutgoingStream& outgoing(uint64_t number) { return outgoing_.at(number).stream; }
  void write(uint64_t number, StreamItem item);
  void end(uint64_t number, const ErrorRecord* error);
  void writer_gone(uint64_t number);
  // This process ends: writers that go now end no stream, its readers hear of the death.
  void leave_open() { leaving_ = true; }
  // A reader of that stream; not opened.
  uint64_t read(const internal::StreamAddress& address);
  IncomingStream& incoming(uint64_t number) { return incoming_.at(number); }
  void reader_gone(uint64_t number);
  void let_go_of(Inner inner) { let_go(wires_, std::move(inner)); }

  // ---- news ----
  void on_frame(PeerId peer, const rpc::FrameHeader& header, ByteView body);
  void on_unheld(const ObjectId& marker);
  void on_peer_closed(PeerId peer);
  void on_maker(uint64_t number, const proto::ActorInfo& info);
  // The raylet is gone: of no process anything will be known.
  void on_failure(const ErrorRecord& why);

  // Whether a reader behind that peer is still to get items: the link is in use, however long nothing is written.
  bool writes_to(PeerId peer) const;
  size_t count() const { return outgoing_.size() + incoming_.size(); }

 private:
  struct Written {
    Written(OutgoingStream::Window window, StreamWires& wires) : stream(window, wires) {}
    OutgoingStream stream;
    bool writer_gone = false;
  };
  using Entry = std::unordered_map<uint64_t, Written>::iterator;

  void on_open(PeerId peer, const rpc::FrameHeader& header);
  void refuse(PeerId peer, uint64_t reader_number);
  void pump(OutgoingStream& stream);
  void pump_soon();
  void cancel(Entry entry);

  StreamWires wires_;
  std::unordered_map<uint64_t, Written> outgoing_;
  std::unordered_map<uint64_t, IncomingStream> incoming_;
  uint64_t last_number_ = 0;
  bool pump_due_ = false;
  bool leaving_ = false;
};

}  // namespace rayo::worker
