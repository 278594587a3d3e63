#include "runtime/worker/outgoing_stream.h"

#include <array>

#include "runtime/worker/call_body.h"
#include "runtime/worker/failure.h"

namespace rayo::worker {

bool OutgoingStream::room() const {
  return written_ - taken_ < window_.items && bytes_written_ - bytes_taken_ < static_cast<uint64_t>(window_.bytes);
}

void OutgoingStream::write(StreamItem item) {
  ++written_;
  bytes_written_ += item.value.size();
  waiting_.push_back(std::move(item));
}

void OutgoingStream::end(const ErrorRecord* error) {
  if (ended_) return;
  ended_ = true;
  if (error) error_ = *error;
}

bool OutgoingStream::attach(PeerId reader, uint64_t number) {
  if (reader_ != kNoPeer || cancelled_) return is_read_by(reader, number);
  reader_ = reader;
  reader_number_ = number;
  return true;
}

bool OutgoingStream::pump() {
  if (reader_ == kNoPeer || cancelled_) return true;
  while (!waiting_.empty()) {
    if (wires_.backlog(reader_) >= kMaxBacklog) return false;
    StreamItem item = std::move(waiting_.front());
    waiting_.pop_front();
    send(std::move(item));
  }
  if (!ended_ || std::exchange(end_sent_, true)) return true;
  const std::string body = error_ ? failure_of(*error_).SerializeAsString() : std::string();
  const Bytes part = std::as_bytes(std::span(body));
  send_frame(rpc::FrameKind::kStreamEnd, error_ ? rpc::kFlagFailure : 0, written_, {&part, 1});
  return true;
}

void OutgoingStream::send(StreamItem item) {
  ++sent_;
  if (!item.has_inner()) {
    const Bytes part = item.value;
    send_frame(rpc::FrameKind::kStreamItem, 0, sent_, {&part, 1});
    return;
  }
  std::vector<ObjectId> ids;
  for (const internal::ObjectHandle& ref : item.inner.refs) {
    wires_.calls.share(slot_of(ref));
    ids.push_back(ref.id);
  }
  BodyWriter sections;
  sections.refs(ids, 0);
  if (item.inner.actors) sections.actors(*item.inner.actors);
  given_.push_back({sent_, std::move(item.inner)});
  const std::array<Bytes, 2> parts{sections.bytes(), item.value};
  send_frame(rpc::FrameKind::kStreamItem, sections.flags(), sent_, parts);
}

bool OutgoingStream::send_frame(rpc::FrameKind kind, uint16_t flags, uint64_t sequence, std::span<const Bytes> parts) {
  rpc::FrameHeader header;
  header.kind = kind;
  header.flags = flags;
  header.call_id = reader_number_;
  header.sequence = sequence;
  return wires_.calls.send(reader_, header, parts);  // false: its link has broken, and on_peer_closed follows
}

void OutgoingStream::on_credit(uint64_t items, uint64_t bytes) {
  if (items < taken_ || items > sent_ || bytes < bytes_taken_ || bytes > bytes_written_)
    return;  // not a reader of ours
  taken_ = items;
  bytes_taken_ = bytes;
  while (!given_.empty() && given_.front().number <= taken_) {
    let_go(wires_, std::move(given_.front().inner));
    given_.pop_front();
  }
}

void OutgoingStream::cancel() {
  cancelled_ = true;
  drop_everything();
}

void OutgoingStream::drop_everything() {
  for (StreamItem& item : std::exchange(waiting_, {})) let_go(wires_, std::move(item.inner));
  for (Given& given : std::exchange(given_, {})) let_go(wires_, std::move(given.inner));
}

}  // namespace rayo::worker
