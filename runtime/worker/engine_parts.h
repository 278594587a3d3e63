// What an Engine is made of: known to engine.cc (waiting and running) and service_thread.cc (standing in for
// it).
#pragma once

#include <atomic>
#include <pthread.h>

#include "runtime/base/fd.h"
#include "runtime/worker/engine.h"
#include "runtime/worker/peer_table.h"
#include "runtime/worker/post_queue.h"
#include "runtime/worker/waiters.h"

namespace rayo::worker {

// Numbers of the engine, each with its reason.
inline constexpr auto kSpin = std::chrono::microseconds(5);    // longer ones lose more on a shared core than they win
inline constexpr auto kNet = std::chrono::milliseconds(100);   // the longest sleep while anything is outstanding
inline constexpr auto kLook = std::chrono::microseconds(100);  // at sockets and deadlines, between user calls
inline constexpr uint32_t kTurnsPerLook = 64;                  // the same while rings keep a thread busy
inline constexpr uint32_t kRunsPerTurn = 32;                   // user calls in a row between two looks at the rings
// Until sockets are watched again; between batches of posts.
inline constexpr auto kTick = std::chrono::milliseconds(2);
// Turns in a row before the baton is offered to others: a peer that rings without end must not keep it.
inline constexpr int kTurnsInARow = 16;

// Flushes in a row without a wait in between that make a burst: then sockets are written to in large pieces,
// by the sender's next wait or the service thread's next tick.
inline constexpr uint32_t kBurst = 8;

// The thread that moves things while no thread waits. It sleeps on its own eventfd and, by one shot at a
// time, on the sockets.
struct ServiceState {
  std::atomic<bool> running{false};
  pthread_t thread{};
  base::Fd epoll;
  std::atomic<bool> stopping{false};
  std::atomic<bool> posted{false};  // a post has woken it and it has not yet found the queue empty
  bool more = false;                // it gave the baton up before it was done; under the baton, as all below
  bool sockets_armed = false;
  bool flush_due = false;  // frames have been left for the next tick
  base::TimePoint wakes_at = base::kForever;
};

struct Engine::Parts {
  Parts(Baton& lock, Sink& to, rpc::Doorbell bell, const base::Clock& time);

  // ---- moving things; under the baton ----
  // Posted items, rings, and at times sockets and deadlines. True: there was something to do.
  bool turn();
  bool turn_sockets_and_deadlines();
  void look_around();
  void run_deadlines(base::TimePoint now);
  void flush_and_kick();
  // What waits to leave does so in a tick, whatever this thread does until then.
  void flush_in_a_tick();
  // Wakes each thread whose condition holds, the sleeping driver included.
  void wake_ready();

  // ---- driving: by the one thread for which `driving` is true ----
  bool drive(bool (*ready)(void*), void* context, base::TimePoint deadline, PeerId peer);
  bool wait_behind(bool (*ready)(void*), void* context, base::TimePoint deadline);
  // Spins at most 5 us where the peer runs on another core. True: there is something.
  bool spin(PeerId peer);
  // Arms, gives up the baton, sleeps in epoll, takes it again.
  void sleep(base::TimePoint deadline);
  bool anything() const { return doorbell.any(peers.words()) || peers.has_news() || !posts.empty(); }
  // How long a sleep that starts now may last; negative: no end. `net`: 100 ms is the reason.
  base::Duration sleep_span(base::TimePoint deadline, bool& net);
  void note_core();

  // ---- the service thread ----
  void serve();  // its whole life
  // False: there is more, and others are to have the baton first.
  bool serve_turn();
  // `shot`: sockets were found readable.
  void serve_instead(uint64_t& wakes_seen, bool shot);
  base::Duration service_span();
  bool run_posts();
  void watch_sockets();  // arms the sockets' one shot
  void plan_service();   // wakes it where a deadline is nearer than its sleep

  Baton& baton;
  Sink& sink;
  rpc::Doorbell doorbell;
  const base::Clock& clock;
  PeerTable peers;
  Waiters waiters;
  PostQueue posts;
  ServiceState service;
  std::atomic<bool> interrupted{false};
  bool driving = false;
  bool (*driver_ready)(void*) = nullptr;
  void* driver_context = nullptr;
  bool asleep = false;          // the driving thread is in epoll_wait
  uint64_t wakes = 0;           // of the driving thread, and each time it begins to drive
  uint32_t flushes = 0;         // by the user's calls since the last wait
  uint32_t work = 0;            // turns since sockets and deadlines were looked at
  base::TimePoint looked_at{};  // when sockets and deadlines were looked at
  uint32_t runs = 0;            // user calls since the last turn
};

}  // namespace rayo::worker
