#include "runtime/worker/engine.h"

#include <algorithm>
#include <array>
#include <emmintrin.h>
#include <mutex>
#include <sched.h>
#include <sys/epoll.h>
#include <utility>

#include "runtime/worker/engine_parts.h"

namespace rayo::worker {
Engine::Parts::Parts(Baton& lock, Sink& to, rpc::Doorbell bell, const base::Clock& time)
    : baton(lock), sink(to), doorbell(std::move(bell)), clock(time), peers(to, doorbell) {
  doorbell.set_busy(true);
}

bool Engine::Parts::turn() {
  bool any = posts.run();
  any |= peers.poll_rings();
  if (++work >= kTurnsPerLook) any |= turn_sockets_and_deadlines();
  if (any) wake_ready();
  return any;
}

bool Engine::Parts::turn_sockets_and_deadlines() {
  work = 0;
  looked_at = clock.now();
  // A driver that sleeps is woken by that epoll; the edge that tells it of a ring would be taken from it here.
  const bool any = !asleep && peers.poll_sockets();
  if (any) wake_ready();
  run_deadlines(looked_at);
  return any;
}

// Between two user calls of many in a row: a peer that is awake sees its answers at once; one that sleeps is
// woken, and sockets get their turn, every 100 us.
void Engine::Parts::look_around() {
  runs = 0;
  turn();
  if (clock.now() - looked_at < kLook) return peers.publish();
  turn_sockets_and_deadlines();
  flush_and_kick();
}

void Engine::Parts::run_deadlines(base::TimePoint now) {
  if (sink.next_deadline() > now) return;
  sink.on_deadline(now);
  peers
      .forget_dead();  // nothing else may come for long, and descriptors of what it has closed are not to wait for that
  wake_ready();
}

void Engine::Parts::flush_and_kick() {
  peers.flush();
  peers.kick_urgent();
}

void Engine::Parts::flush_in_a_tick() {
  if (peers.dirty() && service.running.load(std::memory_order_relaxed) && !std::exchange(service.flush_due, true))
    doorbell.wake_service();
}

void Engine::Parts::wake_ready() {
  waiters.wake_ready();
  if (asleep && driver_ready(driver_context)) doorbell.wake_main();
}

void Engine::Parts::note_core() {
  const auto core = static_cast<uint32_t>(::sched_getcpu());
  auto& shown = doorbell.page().core;
  if (shown.load(std::memory_order_relaxed) != core) shown.store(core, std::memory_order_relaxed);
}

bool Engine::Parts::spin(PeerId peer) {
  note_core();
  const int theirs = peers.core_of(peer != kNoPeer ? peer : peers.last_heard());
  if (theirs < 0 || theirs == static_cast<int>(doorbell.page().core.load(std::memory_order_relaxed))) return false;
  std::chrono::steady_clock::time_point end{};
  for (uint32_t i = 1;; ++i) {
    if (anything()) return true;
    if (baton.contended()) return false;
    _mm_pause();
    if (i % 16 != 0) continue;
    const auto now = std::chrono::steady_clock::now();
    if (end == std::chrono::steady_clock::time_point{}) end = now + kSpin;
    if (now >= end) return false;
  }
}

base::Duration Engine::Parts::sleep_span(base::TimePoint deadline, bool& net) {
  const base::TimePoint end = std::min(deadline, sink.next_deadline());
  net = sink.outstanding();
  if (end == base::kForever) return net ? base::Duration(kNet) : base::Duration(-1);
  const base::Duration span = std::max(end - clock.now(), base::Duration::zero());
  net = net && span > kNet;
  return net ? base::Duration(kNet) : span;
}

void Engine::Parts::sleep(base::TimePoint deadline) {
  doorbell.arm(rpc::Sleeping::kMain);
  if (anything() || interrupted.load()) return doorbell.disarm();
  peers.kick_urgent();
  bool net = false;
  const base::Duration span = sleep_span(deadline, net);
  const auto milliseconds =
      span < base::Duration::zero() ? -1 : std::chrono::ceil<std::chrono::milliseconds>(span).count();
  std::array<epoll_event, 16> events;
  asleep = true;
  baton.unlock();
  const int count = ::epoll_wait(peers.epoll_fd(), events.data(), events.size(),
                                 static_cast<int>(std::min<int64_t>(milliseconds, 1 << 30)));
  baton.lock();
  asleep = false;
  doorbell.disarm();
  ++wakes;
  note_core();
  if (count == 0) {
    if (net) {
      peers.scan_rings(true);
      waiters.wake_ready();
    }
    run_deadlines(clock.now());
  }
  if (count <= 0) return;
  const auto brought = std::span(events).first(static_cast<size_t>(count));
  const bool rung = std::any_of(brought.begin(), brought.end(),
                                [](const epoll_event& event) { return event.data.u64 == PeerTable::kBellEvent; });
  if (rung && !doorbell.any(peers.words())) peers.scan_rings(false);  // somebody cleared the bits of the one that rang
  peers.read_sockets(brought);
  if (!waiters.empty()) waiters.wake_ready();
}

bool Engine::Parts::drive(bool (*ready)(void*), void* context, base::TimePoint deadline, PeerId peer) {
  for (;;) {
    peers.flush();
    bool worked = turn();
    if (interrupted.load(std::memory_order_relaxed) && interrupted.exchange(false)) waiters.wake_all();
    if (ready(context)) return true;
    if (worked && baton.contended()) {  // another thread has something to send
      baton.unlock();
      ::sched_yield();
      baton.lock();
    }
    if (worked || spin(peer)) continue;
    if (deadline != base::kForever && clock.now() >= deadline) {
      turn_sockets_and_deadlines();  // so that polling with no time to wait gets on too
      return ready(context);
    }
    sleep(deadline);
  }
}

bool Engine::Parts::wait_behind(bool (*ready)(void*), void* context, base::TimePoint deadline) {
  Waiter self;
  self.ready = ready;
  self.context = context;
  waiters.add(self);
  flush_and_kick();
  bool done = false;
  for (;;) {
    self.word.store(0, std::memory_order_relaxed);
    if ((done = ready(context)) || !driving) break;
    base::Duration span{-1};
    if (deadline != base::kForever) span = deadline - clock.now();
    if (deadline != base::kForever && span <= base::Duration::zero()) break;
    baton.unlock();
    Waiters::sleep(self, span);
    baton.lock();
  }
  waiters.remove(self);
  if (done && !driving) waiters.wake_first();  // the role may have been offered to this thread, which does not take it
  return done;
}

bool Engine::wait(bool (*ready)(void*), void* context, base::TimePoint deadline, PeerId peer) {
  Parts& parts = *parts_;
  parts.flushes = 0;
  while (parts.driving) {
    if (parts.wait_behind(ready, context, deadline)) return true;
    if (deadline == base::kForever || parts.clock.now() < deadline) continue;
    if (!parts.driving) parts.waiters.wake_first();  // it was offered the driver's role, and has no time left for it
    return false;
  }
  parts.driving = true;
  parts.driver_ready = ready;
  parts.driver_context = context;
  ++parts.wakes;
  parts.doorbell.set_busy(false);
  parts.doorbell.disarm_service();
  const bool done = parts.drive(ready, context, deadline, peer);
  parts.driving = false;
  parts.doorbell.set_busy(true);
  parts.waiters.wake_first();
  parts.plan_service();
  return done;
}

Engine::Engine(Sink& sink, rpc::Doorbell doorbell, const base::Clock& clock)
    : parts_(std::make_unique<Parts>(baton_, sink, std::move(doorbell), clock)) {}

rpc::Doorbell& Engine::doorbell() { return parts_->doorbell; }

base::StatusOr<PeerId> Engine::add_ring_peer(RingLink link) { return parts_->peers.add_ring(std::move(link)); }
base::StatusOr<PeerId> Engine::add_tcp_peer(base::Fd socket, std::unique_ptr<rpc::TlsPump> tls) {
  return parts_->peers.add_tcp(std::move(socket), std::move(tls));
}
void Engine::close(PeerId peer) { parts_->peers.close(peer); }

bool Engine::send(PeerId peer, rpc::FrameHeader header, std::initializer_list<Bytes> parts) {
  return parts_->peers.send(peer, header, std::span(parts.begin(), parts.size()));
}
bool Engine::send(PeerId peer, rpc::FrameHeader header, std::span<const Bytes> parts) {
  return parts_->peers.send(peer, header, parts);
}

void Engine::flush() {
  Parts& parts = *parts_;
  if (++parts.flushes <= kBurst || !parts.service.running.load()) {
    parts.flush_and_kick();
  } else {
    parts.peers.flush_rings();
    parts.peers.kick_urgent();
    parts.flush_in_a_tick();
  }
  parts.plan_service();
}

void Engine::flush_rings() {
  parts_->peers.flush_rings();
  parts_->peers.kick_urgent();
  parts_->plan_service();
}

void Engine::hand_over() { parts_->peers.hand_over(); }

size_t Engine::backlog(PeerId peer) const { return parts_->peers.backlog(peer); }
base::TimePoint Engine::last_used(PeerId peer) const { return parts_->peers.last_used(peer, parts_->clock.now()); }

base::Status Engine::attach_raylet(base::Fd socket, std::unique_ptr<rpc::TlsPump> tls) {
  return parts_->peers.attach_raylet(std::move(socket), std::move(tls));
}
bool Engine::send_raylet(rpc::FrameHeader header, Bytes body, std::span<const int> fds) {
  return parts_->peers.send_raylet(header, body, fds);
}

void Engine::poll() { parts_->look_around(); }

void Engine::enter_user(bool maybe_long) {
  Parts& parts = *parts_;
  if (++parts.runs >= kRunsPerTurn) parts.look_around();
  if (maybe_long && parts.driving) {
    parts.flush_and_kick();  // the thread that drives is armed, or about to be: it stays on duty
  } else if (maybe_long) {
    parts.flush_and_kick();
    parts.doorbell.arm(rpc::Sleeping::kServiceOnly);
    for (int turns = 0; parts.anything(); ++turns) {
      if (turns == kTurnsInARow) {
        parts.doorbell.wake_service();  // which goes on with it
        break;
      }
      parts.turn();
      parts.flush_and_kick();
      parts.doorbell.arm(rpc::Sleeping::kServiceOnly);
    }
    parts.watch_sockets();
    parts.plan_service();
  } else {
    parts.flush_in_a_tick();  // answers of the calls before it, should it take long for once
  }
  baton_.unlock();
}

void Engine::leave_user() {
  baton_.lock();
  parts_->doorbell.disarm_service();
}

void Engine::wake() { parts_->wake_ready(); }

void Engine::interrupt() {
  parts_->interrupted.store(true);
  parts_->doorbell.wake_main();
}

void Engine::post(Posted* item) {
  parts_->posts.push(item);
  if (parts_->service.running && !parts_->service.posted.exchange(true)) parts_->doorbell.wake_service();
}

}  // namespace rayo::worker
