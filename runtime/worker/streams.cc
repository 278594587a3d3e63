#include "runtime/worker/streams.h"

#include <algorithm>

#include "runtime/worker/failure.h"

namespace rayo::worker {

namespace {
// When to look again at a link that had too much unread for more items.
constexpr base::Duration kPumpAgain = std::chrono::milliseconds(5);
// What a marker holds: CBOR null.
constexpr std::byte kNull{0xf6};
}  // namespace

// ---- the API's ends ----

ObjectSlot& Streams::make(OutgoingStream::Window window) {
  ObjectSlot& marker = wires_.table.mint();
  marker.watched = true;
  marker.shared.store(true, std::memory_order_relaxed);  // its end is told, also where it never left
  wires_.table.fulfil(marker, {&kNull, 1});
  outgoing_.try_emplace(marker.id.counter, window, wires_);
  return marker;
}

void Streams::write(uint64_t number, StreamItem item) {
  OutgoingStream& stream = outgoing(number);
  stream.write(std::move(item));
  pump(stream);
}

void Streams::end(uint64_t number, const ErrorRecord* error) {
  if (leaving_) return;
  OutgoingStream& stream = outgoing(number);
  stream.end(error);
  pump(stream);
}

void Streams::writer_gone(uint64_t number) {
  end(number, nullptr);
  auto found = outgoing_.find(number);
  found->second.writer_gone = true;
  if (found->second.stream.cancelled()) outgoing_.erase(found);
}

uint64_t Streams::read(const internal::StreamAddress& address) {
  const uint64_t number = ++last_number_;
  incoming_.try_emplace(number, number, address, wires_);
  return number;
}

void Streams::reader_gone(uint64_t number) {
  incoming(number).leave();
  incoming_.erase(number);
}

void Streams::pump(OutgoingStream& stream) {
  if (!stream.pump()) pump_soon();
}

void Streams::pump_soon() {
  if (std::exchange(pump_due_, true)) return;
  wires_.after(kPumpAgain, [this] {
    pump_due_ = false;
    std::vector<uint64_t> numbers;
    for (const auto& [number, written] : outgoing_) numbers.push_back(number);
    for (uint64_t number : numbers)
      if (auto found = outgoing_.find(number); found != outgoing_.end()) pump(found->second.stream);
  });
}

void Streams::cancel(Entry entry) {
  entry->second.stream.cancel();
  if (entry->second.writer_gone) outgoing_.erase(entry);
}

// ---- news ----

void Streams::on_frame(PeerId peer, const rpc::FrameHeader& header, ByteView body) {
  using K = rpc::FrameKind;
  if (header.kind == K::kStreamOpen) return on_open(peer, header);
  if (header.kind == K::kStreamItem || header.kind == K::kStreamEnd) {
    auto found = incoming_.find(header.call_id);
    if (found == incoming_.end() || found->second.link() != peer) return;  // too late, or of somebody else
    return header.kind == K::kStreamItem ? found->second.on_item(header, body) : found->second.on_end(header, body);
  }
  auto found = outgoing_.find(header.call_id);
  if (found == outgoing_.end() || !found->second.stream.is_read_by(peer, header.target)) return;
  if (header.kind == K::kStreamCancel) return cancel(found);
  found->second.stream.on_credit(header.sequence, header.function);
}

void Streams::on_open(PeerId peer, const rpc::FrameHeader& header) {
  auto found = outgoing_.find(header.call_id);
  if (found == outgoing_.end() || !found->second.stream.attach(peer, header.target)) return refuse(peer, header.target);
  pump(found->second.stream);
}

void Streams::refuse(PeerId peer, uint64_t reader_number) {
  rpc::FrameHeader header;
  header.kind = rpc::FrameKind::kStreamEnd;
  header.flags = rpc::kFlagFailure;
  header.call_id = reader_number;
  const std::string body =
      failure_of(error_record(ErrorKind::kInvalid, "the stream has another reader, or had one that is gone",
                              "read the value that holds a Stream once, and pass the Stream on instead"))
          .SerializeAsString();
  const Bytes part = std::as_bytes(std::span(body));
  wires_.calls.send(peer, header, {&part, 1});
}

void Streams::on_unheld(const ObjectId& marker) {
  if (auto found = outgoing_.find(marker.counter); found != outgoing_.end()) cancel(found);
}

void Streams::on_peer_closed(PeerId peer) {
  for (auto at = outgoing_.begin(); at != outgoing_.end();) {
    const Entry entry = at++;
    if (entry->second.stream.reader() == peer) cancel(entry);
  }
}

bool Streams::writes_to(PeerId peer) const {
  return std::any_of(outgoing_.begin(), outgoing_.end(),
                     [peer](const auto& entry) { return entry.second.stream.reader() == peer; });
}

void Streams::on_maker(uint64_t number, const proto::ActorInfo& info) {
  if (auto found = incoming_.find(number); found != incoming_.end()) found->second.on_maker(info);
}

void Streams::on_failure(const ErrorRecord& why) {
  for (auto& [number, stream] : incoming_) stream.on_failure(why);
  for (auto at = outgoing_.begin(); at != outgoing_.end();) cancel(at++);
}

}  // namespace rayo::worker
