#include "runtime/worker/peer_table.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <sys/epoll.h>

#include "runtime/base/check.h"

namespace rayo::worker {
namespace {

// To one peer: then they leave without being asked.
constexpr uint32_t kPublishFrames = 32;
constexpr size_t kFlushBytes = 16u << 10;  // a quarter of what a window of small calls holds: both ends are at work

base::Status broken_ring() {
  return base::failed(absl::StatusCode::kDataLoss, "the peer broke the protocol of its ring; it is treated as dead");
}

}  // namespace

PeerTable::PeerTable(Sink& sink, rpc::Doorbell& bell)
    : sink_(sink), bell_(bell), epoll_(::epoll_create1(EPOLL_CLOEXEC)), sockets_(::epoll_create1(EPOLL_CLOEXEC)) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;  // the eventfd is never read
  event.data.u64 = kBellEvent;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, bell_.main_fd(), &event);
}
PeerTable::~PeerTable() = default;

const PeerTable::Slot* PeerTable::find(PeerId peer) const {
  const size_t index = (peer & 0xffffffff) - 1;
  if (index >= slots_.size()) return nullptr;
  const Slot& slot = slots_[index];
  return slot.generation == peer >> 32 && slot.open() ? &slot : nullptr;
}

size_t PeerTable::free_slot() {
  for (size_t i = 0; i < slots_.size(); ++i)
    if (!slots_[i].open()) return i;
  slots_.emplace_back();
  return slots_.size() - 1;
}

base::StatusOr<PeerId> PeerTable::add_ring(RingLink link) {
  RAYO_ASSIGN_OR_RETURN(std::unique_ptr<RingPeer> ring, RingPeer::open(std::move(link)));
  const uint32_t bit = ring->peer_bit();
  if (slot_of_bit_[bit] != 0)
    return base::failed(absl::StatusCode::kAlreadyExists, "two peers with the same doorbell bit");
  const size_t index = free_slot();
  slots_[index].ring = std::move(ring);
  slot_of_bit_[bit] = static_cast<uint32_t>(index + 1);
  words_ = std::max<size_t>(words_, bit / 64 + 1);
  // It may have written before we knew of it, when its bit meant nobody.
  bell_.page().ready[bit / 64].fetch_or(uint64_t{1} << bit % 64, std::memory_order_seq_cst);
  return id_of(index);
}

base::Status PeerTable::watch(int fd, uint64_t tag, bool writable, int operation) const {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP | (writable ? EPOLLOUT : 0u);
  event.data.u64 = tag;
  for (const base::Fd* set : {&epoll_, &sockets_})
    if (::epoll_ctl(set->get(), operation, fd, &event) != 0)
      return base::failed_errno(errno, "cannot watch a connection");
  return {};
}

void PeerTable::unwatch(int fd) const {
  for (const base::Fd* set : {&epoll_, &sockets_}) ::epoll_ctl(set->get(), EPOLL_CTL_DEL, fd, nullptr);
}

base::StatusOr<PeerId> PeerTable::add_tcp(base::Fd socket, std::unique_ptr<rpc::TlsPump> tls) {
  const size_t index = free_slot();
  RAYO_RETURN_IF_ERROR(watch(socket.get(), id_of(index), false, EPOLL_CTL_ADD));
  slots_[index].socket = std::make_unique<rpc::SocketChannel>(std::move(socket), std::move(tls));
  mark_dirty(slots_[index], index);  // a handshake begins with something to write
  return id_of(index);
}

base::Status PeerTable::attach_raylet(base::Fd socket, std::unique_ptr<rpc::TlsPump> tls) {
  RAYO_RETURN_IF_ERROR(watch(socket.get(), kRayletEvent, false, EPOLL_CTL_ADD));
  raylet_in_child_.reset();
  raylet_ = std::make_unique<rpc::SocketChannel>(std::move(socket), std::move(tls));
  raylet_in_child_.emplace(raylet_->fd());
  raylet_watches_writable_ = false;
  return {};
}

void PeerTable::bury(Slot& slot) {
  if (slot.ring) {
    slot_of_bit_[slot.ring->peer_bit()] = 0;
    slot.ring->leave();
    dead_rings_.push_back(std::move(slot.ring));
  }
  if (slot.socket) {
    unwatch(slot.socket->fd());
    dead_sockets_.push_back(std::move(slot.socket));
  }
  Slot fresh;
  fresh.generation = slot.generation + 1;
  fresh.dirty = slot.dirty;  // its index may stand in dirty_
  slot = std::move(fresh);
}

void PeerTable::close(PeerId peer) {
  if (Slot* slot = find(peer)) {
    if (slot->socket) (void)slot->socket->flush();
    bury(*slot);
  }
}

void PeerTable::end() {
  for (Slot& slot : slots_) bury(slot);
  raylet_in_child_.reset();
  raylet_.reset();
  failures_.clear();
  kicks_.clear();
  dead_rings_.clear();
  dead_sockets_.clear();
  epoll_.reset();
  sockets_.reset();
}

void PeerTable::mark_dirty(Slot& slot, size_t index) {
  if (slot.dirty) return;
  slot.dirty = true;
  dirty_.push_back(static_cast<uint32_t>(index));
}

// One message longer than the limit may pass where nothing else waits.
bool PeerTable::over_backlog(const Slot& slot, size_t more) {
  const size_t waits = slot.ring ? slot.ring->backlog() : slot.socket->backlog();
  return waits != 0 && waits + more > kMaxBacklog;
}

bool PeerTable::send(PeerId peer, rpc::FrameHeader header, std::span<const Bytes> parts) {
  Slot* slot = find(peer);
  if (slot == nullptr || slot->failed) return false;
  size_t length = 0;
  for (Bytes part : parts) length += part.size();
  if (length > rpc::kMaxFrameBody) return false;
  const size_t index = (peer & 0xffffffff) - 1;
  if (header.kind == rpc::FrameKind::kCall && over_backlog(*slot, length)) {
    flush_slot(*slot, index);
    if (slot->failed || over_backlog(*slot, length)) return false;
  }
  header.length = static_cast<uint32_t>(length);
  if (slot->ring)
    slot->ring->send(header, parts);
  else
    slot->socket->send(header, parts);
  ++slot->frames;
  mark_dirty(*slot, index);
  if (slot->ring) {
    if (++slot->unflushed < kPublishFrames) return true;
    slot->unflushed = 0;
    slot->ring->publish();
  } else if (slot->socket->backlog() >= kFlushBytes && !slot->watches_writable) {
    flush_slot(*slot, index);
  }
  return true;
}

bool PeerTable::send_raylet(rpc::FrameHeader header, Bytes body, std::span<const int> fds) {
  if (!raylet_ || body.size() > rpc::kMaxFrameBody) return false;
  raylet_->send(header, std::span(&body, 1), fds);
  return true;
}

void PeerTable::flush_slot(Slot& slot, size_t index) {
  slot.unflushed = 0;
  if (!slot.open() || slot.failed) return;
  const PeerId peer = id_of(index);
  if (slot.ring) {
    slot.ring->flush();
    if (slot.ring->wants_kick()) kicks_.push_back(peer);
    if (slot.ring->broken()) fail(peer, broken_ring());
    if (slot.ring->flooded())
      fail(peer, base::failed(absl::StatusCode::kResourceExhausted, "the peer reads nothing of what it is sent"));
    return;
  }
  base::Status flushed = slot.socket->flush();
  if (!flushed.ok()) return fail(peer, std::move(flushed));
  if (slot.socket->wants_write() == slot.watches_writable) return;
  slot.watches_writable = slot.socket->wants_write();
  (void)watch(slot.socket->fd(), peer, slot.watches_writable, EPOLL_CTL_MOD);
}

void PeerTable::flush_raylet() {
  if (!raylet_ || (raylet_->backlog() == 0 && !raylet_watches_writable_)) return;
  if (!raylet_->flush().ok()) return;  // its end is read from the socket
  if (raylet_->wants_write() == raylet_watches_writable_) return;
  raylet_watches_writable_ = raylet_->wants_write();
  (void)watch(raylet_->fd(), kRayletEvent, raylet_watches_writable_, EPOLL_CTL_MOD);
}

void PeerTable::flush() {
  for (uint32_t index : dirty_) {
    slots_[index].dirty = false;
    flush_slot(slots_[index], index);
  }
  dirty_.clear();
  flush_raylet();
}

void PeerTable::flush_rings() {
  std::erase_if(dirty_, [this](uint32_t index) {
    if (slots_[index].socket) return false;
    slots_[index].dirty = false;
    flush_slot(slots_[index], index);
    return true;
  });
  flush_raylet();
}

void PeerTable::publish() {
  for (uint32_t index : dirty_)
    if (slots_[index].ring && !slots_[index].failed) slots_[index].ring->publish();
}

void PeerTable::hand_over() {
  for (uint32_t index : dirty_) {
    Slot& slot = slots_[index];
    if (slot.failed) continue;
    if (slot.ring) slot.ring->publish();
    if (slot.socket) flush_slot(slot, index);
  }
}

void PeerTable::kick_urgent() {
  for (PeerId peer : kicks_)
    if (Slot* slot = find(peer)) slot->ring->kick();
  kicks_.clear();
}

size_t PeerTable::backlog(PeerId peer) const {
  const Slot* slot = find(peer);
  if (slot == nullptr) return 0;
  return slot->ring ? slot->ring->backlog() : slot->socket->backlog();
}

base::TimePoint PeerTable::last_used(PeerId peer, base::TimePoint now) {
  Slot* slot = find(peer);
  if (slot == nullptr) return {};
  if (slot->frames != slot->frames_seen || slot->used == base::TimePoint{}) slot->used = now;
  slot->frames_seen = slot->frames;
  return slot->used;
}

int PeerTable::core_of(PeerId peer) const {
  const Slot* slot = find(peer);
  return slot != nullptr && slot->ring ? static_cast<int>(slot->ring->core()) : -1;
}

void PeerTable::fail(PeerId peer, base::Status why) {
  Slot* slot = find(peer);
  if (slot == nullptr || slot->failed) return;
  slot->failed = true;
  failures_.emplace_back(peer, std::move(why));
}

void PeerTable::report_failures() {
  while (!failures_.empty()) {
    auto [peer, why] = std::move(failures_.back());
    failures_.pop_back();
    Slot* slot = find(peer);
    if (slot == nullptr) continue;
    bury(*slot);
    sink_.on_peer_closed(peer, why);
  }
  forget_dead();
}

void PeerTable::forget_dead() {
  dead_rings_.clear();
  dead_sockets_.clear();
}

void PeerTable::read_ring(PeerId peer) {
  Slot* slot = find(peer);
  if (slot == nullptr) return;
  RingPeer& ring = *slot->ring;
  const auto hand_over = [&](const rpc::FrameHeader& header, Bytes body) {
    ++slot->frames;
    sink_.on_frame(peer, header, body);
    return slot->ring.get() == &ring;
  };
  const bool closed = ring.closed();  // before the last read: what was published before it is still handed over
  ring.receive(scratch_, hand_over);
  if (slot->ring.get() != &ring) return;
  last_heard_ = peer;
  if (ring.backlog() != 0) mark_dirty(*slot, (peer & 0xffffffff) - 1);
  if (ring.broken()) return fail(peer, broken_ring());
  if (closed) fail(peer, base::failed(absl::StatusCode::kUnavailable, "the peer closed its ring"));
}

bool PeerTable::poll_rings() {
  bool any = false;
  for (size_t word = 0; word < words_; ++word) {
    uint64_t bits = bell_.take(word);
    any |= bits != 0;
    for (; bits != 0; bits &= bits - 1) {
      const uint32_t slot = slot_of_bit_[word * 64 + static_cast<size_t>(std::countr_zero(bits))];
      if (slot != 0) read_ring(id_of(slot - 1));
    }
  }
  any |= has_news();
  report_failures();
  return any;
}

void PeerTable::scan_rings(bool regardless) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].ring || slots_[i].failed) continue;
    if (regardless) slots_[i].ring->flush_regardless();
    if (slots_[i].ring->pending() || slots_[i].ring->closed()) read_ring(id_of(i));
  }
  report_failures();
}

void PeerTable::read_socket(PeerId peer, uint32_t events) {
  Slot* slot = find(peer);
  if (slot == nullptr || !slot->socket) return;
  rpc::SocketChannel& socket = *slot->socket;
  if ((events & EPOLLOUT) != 0) flush_slot(*slot, (peer & 0xffffffff) - 1);
  if ((events & ~EPOLLOUT) == 0) return;
  base::Status read = socket.on_readable([&](const rpc::FrameHeader& header, Bytes body, std::vector<base::Fd>&) {
    if (slot->socket.get() != &socket) return;
    ++slot->frames;
    sink_.on_frame(peer, header, body);
  });
  if (slot->socket.get() != &socket) return;
  last_heard_ = peer;
  if (socket.backlog() != 0) mark_dirty(*slot, (peer & 0xffffffff) - 1);  // TLS answers while it reads
  if (!read.ok()) fail(peer, std::move(read));
}

void PeerTable::read_raylet(uint32_t events) {
  if (!raylet_) return;
  if ((events & EPOLLOUT) != 0) flush_raylet();
  rpc::SocketChannel* link = raylet_.get();
  base::Status read = link->on_readable([&](const rpc::FrameHeader& header, Bytes body, std::vector<base::Fd>& fds) {
    // What a peer wrote before it died comes before the raylet's word of its death, and its ring's end, rung or not yet,
    // before the raylet gives its bit to another.
    poll_rings();
    scan_rings(false);
    sink_.on_raylet_frame(header, body, fds);
  });
  if (read.ok() || raylet_.get() != link) return;
  unwatch(link->fd());
  raylet_in_child_.reset();
  dead_sockets_.push_back(std::move(raylet_));
  sink_.on_raylet_closed(read);
}

void PeerTable::read_sockets(std::span<const epoll_event> events) {
  for (const epoll_event& event : events) {
    if (event.data.u64 == kRayletEvent)
      read_raylet(event.events);
    else if (event.data.u64 != kBellEvent)
      read_socket(event.data.u64, event.events);
  }
  report_failures();
}

bool PeerTable::poll_sockets() {
  std::array<epoll_event, 32> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), 0);
  if (count > 0) read_sockets(std::span(events).first(static_cast<size_t>(count)));
  return count > 0;
}

}  // namespace rayo::worker
