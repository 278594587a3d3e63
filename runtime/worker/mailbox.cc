#include "runtime/worker/mailbox.h"

#include <cstddef>
#include <cstring>
#include <utility>

namespace rayo::worker {

namespace {
size_t padded(size_t bytes) { return (bytes + 7) & ~size_t{7}; }
}  // namespace

void Mailbox::append(rpc::FlatBuffer& to, PeerId peer, const rpc::FrameHeader& header, ByteView body,
                     std::unique_ptr<CallRefs> refs) {
  // Member by member: what is put together on the stack first is read again before its stores have ended.
  const CallRefs* owned = refs.release();
  std::byte* at = to.prepare(sizeof(Record) + padded(body.size()));
  std::memcpy(at + offsetof(Record, peer), &peer, sizeof peer);
  std::memcpy(at + offsetof(Record, header), &header, sizeof header);
  std::memcpy(at + offsetof(Record, refs), &owned, sizeof owned);
  if (!body.empty()) std::memcpy(at + sizeof(Record), body.data(), body.size());
  to.commit(sizeof(Record) + padded(body.size()));
}

void Mailbox::push(PeerId peer, const rpc::FrameHeader& header, ByteView body, std::unique_ptr<CallRefs> refs) {
  append(arrived_, peer, header, body, std::move(refs));
  ++size_;
}

bool Mailbox::take_flat(rpc::FlatBuffer& from, IncomingCall& out) {
  if (from.empty()) return false;
  const std::byte* at = from.bytes().data();
  CallRefs* refs = nullptr;
  std::memcpy(&out.peer, at + offsetof(Record, peer), sizeof out.peer);
  std::memcpy(&out.header, at + offsetof(Record, header), sizeof out.header);
  std::memcpy(&refs, at + offsetof(Record, refs), sizeof refs);
  out.refs.reset(refs);
  const std::byte* body = at + sizeof(Record);
  out.body.assign(body, body + out.header.length);
  from.consume(sizeof(Record) + padded(out.header.length));
  return true;
}

bool Mailbox::take_flat(IncomingCall& out) {
  if (taking_.empty()) std::swap(taking_, arrived_);
  return take_flat(taking_, out);
}

std::vector<IncomingCall> Mailbox::take_back(PeerId peer, uint64_t keep) {
  std::vector<IncomingCall> out;
  IncomingCall call;
  for (rpc::FlatBuffer* records : {&taking_, &arrived_}) {
    rpc::FlatBuffer others;
    while (take_flat(*records, call)) {
      const bool ready = !call.refs || call.refs->unready == 0;
      const bool goes = call.peer == peer && call.header.target == 0 && call.header.call_id != keep && ready;
      if (goes)
        out.push_back(std::exchange(call, {}));
      else
        append(others, call.peer, call.header, call.body, std::move(call.refs));
    }
    *records = std::move(others);
  }
  size_ -= out.size();
  return out;
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
