// The peers of an engine: who they are, what waits to leave, and where what arrives is handed to the sink.
// Under the baton.
//
// A peer that fails while something is sent to it is not reported from inside that call: the failure waits
// for the next poll, so that the sink is never called from within its own calls.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <sys/epoll.h>
#include <utility>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/rpc/tcp_channel.h"
#include "runtime/rpc/tls_pump.h"
#include "runtime/worker/closed_in_child.h"
#include "runtime/worker/engine.h"
#include "runtime/worker/ring_peer.h"

namespace rayo::worker {

class PeerTable {
 public:
  PeerTable(Sink& sink, rpc::Doorbell& bell);
  ~PeerTable();

  base::StatusOr<PeerId> add_ring(RingLink link);
  base::StatusOr<PeerId> add_tcp(base::Fd socket, std::unique_ptr<rpc::TlsPump> tls);
  base::Status attach_raylet(base::Fd socket, std::unique_ptr<rpc::TlsPump> tls);
  void close(PeerId peer);
  // Closes everything for good; nobody is told.
  void end();

  bool send(PeerId peer, rpc::FrameHeader header, std::span<const Bytes> parts);
  bool send_raylet(rpc::FrameHeader header, Bytes body, std::span<const int> fds);
  void flush();
  // The same, but leaves to sockets what a later flush can send together with more.
  void flush_rings();
  // Something was sent that no flush has let out.
  bool dirty() const { return !dirty_.empty(); }
  // Shows ring peers that are awake what they were sent; the rest waits for flush().
  void publish();
  // The same, and writes to sockets what they take.
  void hand_over();
  // Looks after the urgent frames that were flushed since the last time.
  void kick_urgent();
  size_t backlog(PeerId peer) const;
  base::TimePoint last_used(PeerId peer, base::TimePoint now);
  // Where the peer's driving thread ran last; -1: no ring peer.
  int core_of(PeerId peer) const;
  PeerId last_heard() const { return last_heard_; }

  // Reads the rings whose bits are set, and reports failures that waited. True: there was something.
  bool poll_rings();
  bool poll_sockets();
  // What an epoll_wait on epoll_fd() brought.
  void read_sockets(std::span<const epoll_event> events);
  // Reads every ring, bit or not; `regardless` also rings each peer that has not read on, past its doorbell's
  // words.
  void scan_rings(bool regardless);
  // Lets go of what was closed since the last time. Not from within a frame's handling.
  void forget_dead();
  // Something was seen to fail and not yet reported.
  bool has_news() const { return !failures_.empty(); }
  // How many words of the doorbell's bits are in use.
  size_t words() const { return words_; }
  // The driving thread's epoll: all sockets, and kBellEvent for the main eventfd.
  int epoll_fd() const { return epoll_.get(); }
  // An epoll of all sockets, to be put into the service thread's.
  int sockets_fd() const { return sockets_.get(); }
  static constexpr uint64_t kBellEvent = ~uint64_t{0} - 1;

 private:
  struct Slot {
    uint32_t generation = 1;
    std::unique_ptr<RingPeer> ring;
    std::unique_ptr<rpc::SocketChannel> socket;
    bool dirty = false;
    bool failed = false;
    bool watches_writable = false;
    uint32_t unflushed = 0;
    uint64_t frames = 0;
    uint64_t frames_seen = 0;
    base::TimePoint used{};
    bool open() const { return ring != nullptr || socket != nullptr; }
  };
  static constexpr uint64_t kRayletEvent = ~uint64_t{0};

  PeerId id_of(size_t index) const { return uint64_t{slots_[index].generation} << 32 | (index + 1); }
  const Slot* find(PeerId peer) const;
  Slot* find(PeerId peer) { return const_cast<Slot*>(std::as_const(*this).find(peer)); }
  size_t free_slot();
  static bool over_backlog(const Slot& slot, size_t more);
  void mark_dirty(Slot& slot, size_t index);
  void flush_slot(Slot& slot, size_t index);
  void flush_raylet();
  base::Status watch(int fd, uint64_t tag, bool writable, int operation) const;
  void unwatch(int fd) const;
  void read_ring(PeerId peer);
  void read_socket(PeerId peer, uint32_t events);
  void read_raylet(uint32_t events);
  void fail(PeerId peer, base::Status why);
  void report_failures();
  void bury(Slot& slot);

  Sink& sink_;
  rpc::Doorbell& bell_;
  base::Fd epoll_;
  base::Fd sockets_;
  std::deque<Slot> slots_;
  std::array<uint32_t, rpc::kDoorbellBits> slot_of_bit_{};  // index + 1
  size_t words_ = 0;
  std::vector<uint32_t> dirty_;
  std::vector<PeerId> kicks_;
  std::vector<std::pair<PeerId, base::Status>> failures_;
  std::unique_ptr<rpc::SocketChannel> raylet_;
  std::optional<ClosedInChild> raylet_in_child_;  // of raylet_'s socket
  bool raylet_watches_writable_ = false;
  PeerId last_heard_ = kNoPeer;
  rpc::FlatBuffer scratch_;
  // What was closed while its frames were handed over lives until that is done.
  std::vector<std::unique_ptr<RingPeer>> dead_rings_;
  std::vector<std::unique_ptr<rpc::SocketChannel>> dead_sockets_;
};

}  // namespace rayo::worker
