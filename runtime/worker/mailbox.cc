#include "runtime/worker/mailbox.h"

#include <algorithm>
#include <cstring>

namespace rayo::worker {

namespace {
size_t padded(size_t bytes) { return (bytes + 7) & ~size_t{7}; }
// Bytes already taken that may lie before the unread ones before they are moved to the front.
constexpr size_t kSlack = 256u << 10;
}  // namespace

void Mailbox::push(PeerId peer, const rpc::FrameHeader& header, ByteView body, std::unique_ptr<CallRefs> refs) {
  if (read_ == flat_.size()) {
    flat_.clear();
    read_ = 0;
  } else if (read_ > kSlack && read_ > flat_.size() / 2) {
    flat_.erase(flat_.begin(), flat_.begin() + static_cast<ptrdiff_t>(read_));
    read_ = 0;
  }
  const Record record{peer, header, refs.release()};
  const size_t at = flat_.size();
  flat_.resize(at + sizeof record + padded(body.size()));
  std::memcpy(flat_.data() + at, &record, sizeof record);
  if (!body.empty()) std::memcpy(flat_.data() + at + sizeof record, body.data(), body.size());
  ++size_;
}

bool Mailbox::take_flat(IncomingCall& out) {
  if (read_ == flat_.size()) return false;
  Record record;
  std::memcpy(&record, flat_.data() + read_, sizeof record);
  out.peer = record.peer;
  out.header = record.header;
  out.refs.reset(record.refs);
  const std::byte* body = flat_.data() + read_ + sizeof record;
  out.body.assign(body, body + record.header.length);
  read_ += sizeof record + padded(record.header.length);
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

bool Mailbox::holds(PeerId peer, uint64_t call_id) const {
  auto waiting = blocked_.find(peer);
  if (waiting != blocked_.end())
    for (const IncomingCall& call : waiting->second)
      if (call.header.call_id == call_id) return true;
  Record record;
  for (size_t at = read_; at != flat_.size(); at += sizeof record + padded(record.header.length)) {
    std::memcpy(&record, flat_.data() + at, sizeof record);
    if (record.peer == peer && record.header.call_id == call_id) return true;
  }
  return false;
}

bool Mailbox::remove(PeerId peer, uint64_t call_id, IncomingCall& out) {
  if (!holds(peer, call_id)) return false;
  // Rare: a cycle was found. Everything is taken out and all but that one put back behind the others of its peer.
  std::vector<IncomingCall> calls;
  IncomingCall call;
  while (take_flat(call)) calls.push_back(std::move(call));
  flat_.clear();
  read_ = 0;
  size_ -= calls.size();
  bool found = false;
  for (IncomingCall& each : calls) {
    if (!found && each.peer == peer && each.header.call_id == call_id) {
      out = std::move(each);
      found = true;
    } else {
      push(each.peer, each.header, each.body, std::move(each.refs));
    }
  }
  if (found) return true;
  auto& waiting = blocked_[peer];
  auto at = std::find_if(waiting.begin(), waiting.end(),
                         [&](const IncomingCall& each) { return each.header.call_id == call_id; });
  out = std::move(*at);
  waiting.erase(at);
  if (waiting.empty())
    blocked_.erase(peer);
  else
    unblock(peer);
  --size_;
  return true;
}

}  // namespace rayo::worker
