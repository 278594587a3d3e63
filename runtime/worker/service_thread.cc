// The service thread: moves rings, sockets and deadlines while no thread of the process waits in the engine.
//
// It is woken by its eventfd (urgent frames while user code runs, posts, nearer deadlines) and by sockets.
// Socket events reach the driving thread too; so that a busy connection does not wake both each time, the
// sockets are watched by one shot, and after a shot that found the driving thread at work they are watched
// again only when that thread has rested for a tick.
#include <algorithm>
#include <array>
#include <csignal>
#include <mutex>
#include <sched.h>
#include <sys/epoll.h>

#include "runtime/base/check.h"
#include "runtime/worker/engine_parts.h"

namespace rayo::worker {
namespace {

timespec as_timespec(base::Duration span) {
  return {static_cast<time_t>(span.count() / 1'000'000'000), static_cast<long>(span.count() % 1'000'000'000)};
}

}  // namespace

void Engine::Parts::watch_sockets() {
  if (!service.running || service.sockets_armed) return;
  epoll_event event{};
  event.events = EPOLLIN | EPOLLONESHOT;
  event.data.fd = peers.sockets_fd();
  ::epoll_ctl(service.epoll.get(), EPOLL_CTL_MOD, peers.sockets_fd(), &event);
  service.sockets_armed = true;
}

void Engine::Parts::plan_service() {
  if (service.running && sink.next_deadline() < service.wakes_at) doorbell.wake_service();
}

// Everything that is there, on behalf of the threads that are in user code; then armed, so that the next
// urgent frame wakes it.
bool Engine::Parts::serve_turn() {
  for (int turns = 0; turns < kTurnsInARow; ++turns) {
    turn();
    turn_sockets_and_deadlines();
    flush_and_kick();
    doorbell.arm(rpc::Sleeping::kServiceOnly);
    if (!anything()) return true;
  }
  return false;
}

// The queue is run to its end before posters are told that the next one has to wake this thread.
bool Engine::Parts::run_posts() {
  const bool ran = posts.run();
  if (ran) return true;  // the next batch in a tick, without being woken for each
  service.posted.store(false);
  return !posts.empty() && !service.posted.exchange(true) && posts.run();
}

// What one wake-up asks for.
void Engine::Parts::serve_instead(uint64_t& wakes_seen, bool shot) {
  doorbell.page().kicked.store(0, std::memory_order_seq_cst);  // before it looks
  service.more = false;
  service.flush_due = peers.dirty();
  if (service.flush_due) flush_and_kick();
  run_posts();
  if (!driving) {
    service.more = !serve_turn();
    waiters.wake_ready();  // the posts too, and what a net brought
    watch_sockets();
    return;
  }
  // The driving thread sleeps in epoll or is about to take the baton: it polls before it does anything else,
  // so rings and sockets are its own. Posts and deadlines that came since it fell asleep are not known to it.
  run_deadlines(clock.now());
  flush_and_kick();
  wake_ready();
  // What a shot has found is the driving thread's to read. Where that thread waits for a core, watching at once would
  // fire at once, and take the core from it.
  if (wakes_seen == wakes && !shot) watch_sockets();
  wakes_seen = wakes;
}

// How long the service thread may sleep; negative: no end.
base::Duration Engine::Parts::service_span() {
  if (service.more) return kLook;  // so that those who wait for the baton get it
  base::Duration span{-1};
  if (!service.sockets_armed || service.posted.load() || service.flush_due) span = kTick;
  if (span < base::Duration::zero() && !driving && sink.outstanding()) span = kNet;
  service.wakes_at = sink.next_deadline();
  if (service.wakes_at == base::kForever) return span;
  const base::Duration left = std::max<base::Duration>(service.wakes_at - clock.now(),
                                                       driving ? base::Duration(kTick) : base::Duration::zero());
  return span < base::Duration::zero() ? left : std::min(span, left);
}

void Engine::Parts::serve() {
  std::array<epoll_event, 2> events;
  uint64_t wakes_seen = 0;
  std::unique_lock hold(baton);
  while (!service.stopping.load()) {
    const base::Duration span = service_span();
    hold.unlock();
    const timespec limit = as_timespec(span);
    const int count = ::epoll_pwait2(service.epoll.get(), events.data(), events.size(),
                                     span < base::Duration::zero() ? nullptr : &limit, nullptr);
    hold.lock();
    bool shot = false;
    for (int i = 0; i < count; ++i) shot |= events[i].data.fd == peers.sockets_fd();
    if (shot) service.sockets_armed = false;
    if (count == 0 && span == kNet) peers.scan_rings(true);
    serve_instead(wakes_seen, shot);
  }
}

void Engine::start_service() {
  Parts& parts = *parts_;
  if (parts.service.running.load()) return;
  parts.service.epoll = base::Fd(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.fd = parts.doorbell.service_fd();
  ::epoll_ctl(parts.service.epoll.get(), EPOLL_CTL_ADD, parts.doorbell.service_fd(), &event);
  event.events = EPOLLIN | EPOLLONESHOT;
  event.data.fd = parts.peers.sockets_fd();
  ::epoll_ctl(parts.service.epoll.get(), EPOLL_CTL_ADD, parts.peers.sockets_fd(), &event);
  parts.service.sockets_armed = true;
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const auto life = [](void* engine) -> void* {
    static_cast<Parts*>(engine)->serve();
    return nullptr;
  };
  parts.service.posted.store(true);  // so that it looks at what was posted before it lived
  parts.service.running.store(true);
  const int error = ::pthread_create(&parts.service.thread, nullptr, life, &parts);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  RAYO_CHECK(error == 0, "a process that could map its rings can start one thread");
  ::pthread_setname_np(parts.service.thread, "rayo-service");
}

void Engine::end_service() {
  Parts& parts = *parts_;
  if (!parts.service.running.load()) return;
  parts.service.stopping.store(true);
  parts.doorbell.wake_service();
  ::pthread_join(parts.service.thread, nullptr);
  parts.service.running.store(false);
}

void Engine::stop() {
  end_service();
  Parts& parts = *parts_;
  std::lock_guard hold(baton_);
  while (parts.driving || !parts.waiters.empty()) {  // they leave as soon as they have the baton
    parts.waiters.wake_all();
    parts.doorbell.wake_main();
    baton_.unlock();
    ::sched_yield();
    baton_.lock();
  }
  parts.peers.end();
  parts.service.epoll.reset();
  parts.doorbell.close();
}

Engine::~Engine() {
  end_service();
  std::lock_guard hold(baton_);
  parts_->posts.run();
}

}  // namespace rayo::worker
