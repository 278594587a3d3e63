// The progress engine of a worker or driver: the one place where its rings, sockets and raylet link move.
//
//   Engine engine(sink, std::move(doorbell), clock);
//   engine.attach_raylet(std::move(socket), nullptr);
//   engine.start_service();                                   // never in a zygote: it stays at one thread
//   std::lock_guard hold(engine.baton());
//   engine.send(peer, header, {arguments});
//   engine.wait_until([&] { return slot.ready; }, deadline, peer);
//
// The baton. One lock guards the engine and everything that the sink owns. Every function below is called
// with it held, except where it says "any thread"; wait_until and run_user give it up while they sleep or
// while user code runs. It is never held across user code or a system call that can wait. (Lock order:
// Python's GIL before the baton.)
//
// Who drives. The thread that waits in wait_until polls rings and sockets and calls the sink, so a call or a
// reply is handled by the thread that received it, without a hop. Further waiting threads sleep on a word of
// their own; the driver's role goes to the next one when its holder leaves. While no thread waits (user code
// runs), the service thread is woken by urgent frames, sockets, credits and deadlines and calls the sink in
// the same way: the sink may send, but it never runs user code from its callbacks.
//
// A peer that breaks the protocol is closed like one that died: on_peer_closed, once, with the reason.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/status.h"
#include "runtime/rpc/doorbell.h"
#include "runtime/rpc/frame.h"
#include "runtime/rpc/ring.h"
#include "runtime/worker/baton.h"

namespace rayo::rpc {
class TlsPump;
}

namespace rayo::worker {

using rpc::Bytes;

// A peer of this engine; never used again for another one.
using PeerId = uint64_t;
inline constexpr PeerId kNoPeer = 0;

// More unsent bytes than this to a peer, and `send` refuses calls.
inline constexpr size_t kMaxBacklog = 1u << 20;

// What the engine hands its findings to. Called under the baton, by whatever thread drives; it must not run
// user code, not wait, and not call wait_until or run_user.
class Sink {
 public:
  virtual ~Sink() = default;
  // A whole frame (pieces are joined). `body` is private memory, valid during the call.
  virtual void on_frame(PeerId peer, const rpc::FrameHeader& header, Bytes body) = 0;
  // Died, left, or broke the protocol. Every frame that it had published was handed over before. Not after
  // Engine::close.
  virtual void on_peer_closed(PeerId peer, const base::Status& why) = 0;
  // `fds` are the descriptors that came with this frame; take what is meant to stay.
  virtual void on_raylet_frame(const rpc::FrameHeader& header, Bytes body, std::vector<base::Fd>& fds) = 0;
  virtual void on_raylet_closed(const base::Status& why) = 0;
  // The earliest time at which on_deadline is wanted; kForever for none.
  virtual base::TimePoint next_deadline() = 0;
  virtual void on_deadline(base::TimePoint now) = 0;
  // Whether this process waits for anything from a peer: then no sleep is longer than 100 ms, as a net under
  // the wake-ups.
  virtual bool outstanding() = 0;
};

// Something to be done under the baton, posted by any thread without a lock: the dropping of a reference.
struct Posted {
  Posted* next = nullptr;
  void (*run)(Posted* self) = nullptr;  // under the baton; owns `self` from then on
};

// The shared-memory way to a peer, as PeerLink describes it.
struct RingLink {
  base::Fd memory;
  bool first = false;     // this side writes ring 0
  uint32_t my_bit = 0;    // in the peer's doorbell
  uint32_t peer_bit = 0;  // in ours
  rpc::DoorbellFds peer_bell;
};

class Engine {
 public:
  // `sink` and `clock` outlive the engine.
  Engine(Sink& sink, rpc::Doorbell doorbell, const base::Clock& clock);
  // Ends the service thread. No other thread is inside the engine.
  ~Engine();

  Baton& baton() { return baton_; }
  rpc::Doorbell& doorbell();

  // Starts the service thread (all signals blocked in it) if it does not run. Until then the process may
  // fork; the child makes an engine of its own.
  void start_service();
  // The end, without the baton held: the service thread, all peers and the raylet's link, every descriptor. Whoever waits
  // has a reason by now to stop (its condition holds). What is asked of the engine afterwards does nothing.
  void stop();

  // ---- peers ----
  base::StatusOr<PeerId> add_ring_peer(RingLink link);
  // A connected socket, its 64-byte data header already dealt with; `tls` null: plain.
  base::StatusOr<PeerId> add_tcp_peer(base::Fd socket, std::unique_ptr<rpc::TlsPump> tls);
  // Forgets the peer: nothing of it reaches the sink any more. What was sent and is not out yet is lost.
  void close(PeerId peer);

  // Queues a frame; never blocks. header.length is set here; a body too long for a ring goes in pieces. Flags
  // with kFlagUrgent wake the peer's service thread. False: the peer is gone, the body is over kMaxFrameBody,
  // or (calls only) the backlog would be over kMaxBacklog. The frame leaves at the next flush: wait_until
  // does it before it waits (not where `ready` holds at once), run_user before a long method and every 32
  // runs, the service thread behind one that turns out long, and the 32nd frame to one peer by itself.
  bool send(PeerId peer, rpc::FrameHeader header, std::initializer_list<Bytes> parts);
  bool send(PeerId peer, rpc::FrameHeader header, std::span<const Bytes> parts);
  // Lets out what send has queued: call it before user code goes on.
  void flush();
  // The same between two user calls of many in a row: what goes to sockets waits for more, until this thread waits or
  // looks around, or a call takes long.
  void flush_rings();
  // What was sent reaches its peers whatever becomes of this process; who sleeps is not woken for it (flush follows).
  void hand_over();
  // Bytes that wait in this process for the peer to read on.
  size_t backlog(PeerId peer) const;
  // When the last frame went to or came from the peer: a ring idle for 30 s is closed by whoever decides
  // that.
  base::TimePoint last_used(PeerId peer) const;

  // ---- the raylet ----
  // A connected unix socket, or a remote raylet's TCP socket with TLS. Frames queued before it are not known
  // to it.
  base::Status attach_raylet(base::Fd socket, std::unique_ptr<rpc::TlsPump> tls);
  // Queues a frame for the raylet, like `send`; descriptors are duplicated. False: the link is closed, or
  // the body is over kMaxFrameBody.
  bool send_raylet(rpc::FrameHeader header, Bytes body, std::span<const int> fds = {});

  // ---- waiting and running ----
  // Drives (or waits for the thread that does) until `ready` holds; false when the deadline passed. `ready`
  // is called under the baton by any thread that drives, so it is quick and looks only at what the baton
  // guards. `peer`: whose reply is awaited, for the choice to spin at most 5 us.
  template <class Ready>
  bool wait_until(Ready&& ready, base::TimePoint deadline = base::kForever, PeerId peer = kNoPeer) {
    if (ready()) return true;
    return wait([](void* context) -> bool { return (*static_cast<std::remove_reference_t<Ready>*>(context))(); },
                const_cast<void*>(static_cast<const void*>(&ready)), deadline, peer);
  }
  // Polls once without waiting: for a thread that has calls to run and wants the newest state between two of
  // them.
  void poll();

  // Runs user code without the baton. `maybe_long`: its last run took more than 20 us or it never ran; then
  // the service thread is told to stand in. What `code` throws passes through, with the baton held again.
  template <class Code>
  void run_user(bool maybe_long, Code&& code) {
    enter_user(maybe_long);
    struct Leave {
      Engine* engine;
      ~Leave() { engine->leave_user(); }
    } leave{this};
    code();
  }
  void enter_user(bool maybe_long);
  void leave_user();

  // Whoever waits looks at its condition again: after a change that no frame brought (shutdown, a local
  // value).
  void wake();
  // Any thread, async-signal-safe: the same for a signal handler.
  void interrupt();
  // Any thread, lock-free: runs `item` soon, in the order of posting of each thread.
  void post(Posted* item);

 private:
  void end_service();
  bool wait(bool (*ready)(void*), void* context, base::TimePoint deadline, PeerId peer);

  Baton baton_;
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace rayo::worker
