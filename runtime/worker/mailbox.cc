#include "runtime/worker/mailbox.h"

#include <cstring>
#include <utility>

namespace rayo::worker {

namespace {
size_t padded(size_t bytes) { return (bytes + 7) & ~size_t{7}; }
}  // namespace

void Mailbox::push(PeerId peer, const rpc::FrameHeader& header, ByteView body, std::unique_ptr<CallRefs> refs) {
  const Record record{peer, header, refs.release()};
  std::byte* to = arrived_.prepare(sizeof record + padded(body.size()));
  std::memcpy(to, &record, sizeof record);
  if (!body.empty()) std::memcpy(to + sizeof record, body.data(), body.size());
  arrived_.commit(sizeof record + padded(body.size()));
  ++size_;
}

bool Mailbox::take_flat(IncomingCall& out) {
  if (taking_.empty()) std::swap(taking_, arrived_);
  if (taking_.empty()) return false;
  Record record;
  std::memcpy(&record, taking_.bytes().data(), sizeof record);
  out.peer = record.peer;
  out.header = record.header;
  out.refs.reset(record.refs);
  const std::byte* body = taking_.bytes().data() + sizeof record;
  out.body.assign(body, body + record.header.length);
  taking_.consume(sizeof record + padded(record.header.length));
  return true;
}

void Mailbox::unblock(PeerId peer) { unblocked_.push_back(peer); }

bool Mailbox::take(IncomingCall& out) {
  while (!unblocked_.empty()) {
    auto waiting = blocked_.find(unblocked_.front());
    if (waiting != blocked_.end() && (!waiting->second.front().refs || waiting->second.front().refs->unready == 0)) {
      out = std::move(waiting->second.front());
      waiting->second.pop_front();
      if (waiting->second.empty()) blocked_.erase(waiting);
      --size_;
      return true;  // the peer stays in unblocked_: the next of its calls may be ready too
    }
    unblocked_.pop_front();
  }
  while (take_flat(out)) {
    auto waiting = blocked_.empty() ? blocked_.end() : blocked_.find(out.peer);
    if (waiting == blocked_.end() && (!out.refs || out.refs->unready == 0)) {
      --size_;
      return true;
    }
    blocked_[out.peer].push_back(std::move(out));
    out = {};
  }
  return false;
}

bool Mailbox::holds(PeerId peer, std::optional<uint64_t> call_id) const {
  auto waiting = blocked_.find(peer);
  if (waiting != blocked_.end())
    for (const IncomingCall& call : waiting->second)
      if (!call_id || call.header.call_id == *call_id) return true;
  return holds_flat(taking_, peer, call_id) || holds_flat(arrived_, peer, call_id);
}

bool Mailbox::holds_flat(const rpc::FlatBuffer& records, PeerId peer, std::optional<uint64_t> call_id) {
  Record record;
  for (Bytes left = records.bytes(); !left.empty(); left = left.subspan(sizeof record + padded(record.header.length))) {
    std::memcpy(&record, left.data(), sizeof record);
    if (record.peer == peer && (!call_id || record.header.call_id == *call_id)) return true;
  }
  return false;
}

}  // namespace rayo::worker
