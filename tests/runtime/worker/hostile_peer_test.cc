// If this fails, one broken or malicious process crashes, hangs or starves the others on its node.
#include <atomic>
#include <gtest/gtest.h>
#include <random>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/runtime/worker/two_engines.h"

namespace rayo::worker {
namespace {

using namespace std::chrono_literals;

// A child process that runs `life` until it is killed.
class Child {
 public:
  template <class Life>
  explicit Child(Life&& life) : pid_(::fork()) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    life();
    ::_exit(0);
  }
  ~Child() { end(); }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

rpc::FrameHeader call(uint64_t id) {
  rpc::FrameHeader header;
  header.kind = rpc::FrameKind::kCall;
  header.call_id = id;
  return header;
}

template <class T>
T* map_shared(int fd, size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
  EXPECT_NE(memory, MAP_FAILED);
  return static_cast<T*>(memory);
}

// What a hostile process can reach: its rings with the victim, the victim's doorbell page and its eventfds.
struct Reach {
  uint64_t* ring;
  uint64_t* page;
  rpc::PeerDoorbell bell;
  std::atomic<uint64_t>* sweeps;
};

// Writes anywhere it can: words that look like indices, headers that look like frames, and noise; rings all
// the time.
[[noreturn]] void write_wildly(Reach reach, uint32_t seed) {
  std::mt19937_64 random(seed);
  for (;; ++*reach.sweeps) {
    for (int i = 0; i < 1000; ++i) {
      const uint64_t noise = random();
      uint64_t value = noise;
      if (noise % 4 == 0) value = noise % (128 << 10) & ~uint64_t{7};
      if (noise % 4 == 1) value = rpc::kFrameMagic | uint64_t{1} << 32 | (noise % 6) << 40;
      const bool header_page = noise % 3 == 0;
      reach.ring[random() % ((header_page ? 512 : rpc::kRingPairBytes) / 8)] = value;
      if (noise % 5 == 0) reach.page[random() % (sizeof(rpc::DoorbellPage) / 8)] = value;
    }
    reach.bell.ring(1, true);
    reach.bell.ring_regardless(1);
  }
}

// The raylet ends the hostile process's rings; the victim has noticed when this returns.
void end_rings(TestProcess& victim, rpc::ClosedMark& mark, size_t expected_ends) {
  mark.close();
  auto raylet = rpc::PeerDoorbell::map(bell_fds(victim.engine.doorbell()));
  ASSERT_TRUE(raylet.ok());
  const base::TimePoint limit = soon();
  for (bool gone = false; !gone && base::system_clock().now() < limit;) {
    raylet->ring_regardless(1);
    std::this_thread::yield();
    std::lock_guard look(victim.engine.baton());
    gone = victim.sink.closed.size() == expected_ends;
  }
  std::lock_guard look(victim.engine.baton());
  ASSERT_EQ(victim.sink.closed.size(), expected_ends);
}

TEST(HostilePeer, AGoodPeerIsServedBesideIt) {
  TestProcess victim, good;
  const Link ring = link(good, victim, 0, 0);
  auto* sweeps = map_shared<std::atomic<uint64_t>>(-1, 4096);
  auto* page = map_shared<uint64_t>(victim.engine.doorbell().page_fd(), 4096);
  uint64_t answered = 0;
  good.sink.expects = true;  // its net is what brings it through: the page it rings is overwritten all the time
  good.sink.frame = [&](PeerId, const rpc::FrameHeader& header, Bytes) { answered = header.call_id; };
  for (uint32_t round = 0; round < 20; ++round) {
    auto pair = rpc::RingPair::create();
    ASSERT_TRUE(pair.ok());
    rpc::Doorbell hostile_bell = new_doorbell();
    {
      std::lock_guard hold(victim.engine.baton());
      ASSERT_TRUE(victim.engine.add_ring_peer({duplicate(pair->fd.get()), true, 0, 1, bell_fds(hostile_bell)}).ok());
    }
    auto* memory = map_shared<uint64_t>(pair->fd.get(), rpc::kRingPairBytes);
    auto bell = rpc::PeerDoorbell::map(bell_fds(victim.engine.doorbell()));
    ASSERT_TRUE(bell.ok());
    EchoServer server(victim);
    *sweeps = 0;
    Child hostile([&] { write_wildly({memory, page, std::move(*bell), sweeps}, round); });
    {
      std::lock_guard hold(good.engine.baton());
      for (uint64_t i = 1; i <= 100 || *sweeps < 20; ++i) {
        ASSERT_TRUE(good.engine.send(ring.at_a, call(i), {as_bytes("good")}));
        ASSERT_TRUE(good.engine.wait_until([&] { return answered == i; }, soon()))
            << "round " << round << " call " << i;
      }
    }
    hostile.end();
    end_rings(victim, pair->closed_mark, round + 1);
    ::munmap(memory, rpc::kRingPairBytes);
  }
  for (const PeerId closed : victim.sink.closed) EXPECT_NE(closed, ring.at_b);
  ::munmap(page, 4096);
  ::munmap(sweeps, 4096);
}

// A peer whose bit stands all the time keeps the victim polling, and must not keep it from its own work.
TEST(HostilePeer, EndlessRingingStarvesNobody) {
  TestProcess victim, ringer;
  const Link ring = link(ringer, victim, 0, 0);
  victim.engine.start_service();
  auto* page = map_shared<rpc::DoorbellPage>(victim.engine.doorbell().page_fd(), 4096);
  Child hostile([&] {
    for (;;) {
      page->ready[0].fetch_or(1);
      page->kicked.store(0);
    }
  });
  victim.engine.doorbell().wake_service();
  const base::TimePoint limit = soon();
  int runs = 0;
  std::lock_guard hold(victim.engine.baton());
  for (; runs < 300 && base::system_clock().now() < limit; ++runs) {
    victim.engine.run_user(true, [] {});
    victim.engine.wait_until([] { return false; }, base::system_clock().now() + 100us);
  }
  EXPECT_EQ(runs, 300);
  ::munmap(page, 4096);
}

// Stopped at every possible point and killed: the survivor learns of it through the closed mark, and is never
// left asleep.
TEST(HostilePeer, AKilledPeerIsKnown) {
  for (uint32_t round = 0; round < 30; ++round) {
    auto pair = rpc::RingPair::create();
    ASSERT_TRUE(pair.ok());
    TestProcess caller;
    rpc::Doorbell bell = new_doorbell();
    const rpc::DoorbellFds ours = bell_fds(caller.engine.doorbell());
    rpc::DoorbellFds theirs = bell_fds(bell);
    Child callee([&] {
      TestSink sink;
      Engine engine(sink, std::move(bell), base::system_clock());
      sink.frame = [&](PeerId peer, const rpc::FrameHeader& header, Bytes body) { engine.send(peer, header, {body}); };
      std::lock_guard hold(engine.baton());
      (void)engine.add_ring_peer(
          {duplicate(pair->fd.get()),
           false,
           0,
           0,
           {duplicate(ours.page.get()), duplicate(ours.main.get()), duplicate(ours.service.get())}});
      engine.wait_until([] { return false; });
    });
    std::lock_guard hold(caller.engine.baton());
    auto peer = caller.engine.add_ring_peer({duplicate(pair->fd.get()), true, 0, 0, std::move(theirs)});
    ASSERT_TRUE(peer.ok());
    uint64_t answered = 0;
    caller.sink.frame = [&](PeerId, const rpc::FrameHeader&, Bytes) { ++answered; };
    std::thread raylet([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(2000 + round * 137));
      callee.end();  // kills and reaps
      pair->closed_mark.close();
      auto survivor = rpc::PeerDoorbell::map(bell_fds(caller.engine.doorbell()));
      survivor->ring(0, true, true);
    });
    const auto gone = [&] { return !caller.sink.closed.empty(); };
    for (uint64_t i = 0; !gone(); ++i) {
      if (!caller.engine.send(*peer, call(i), {})) break;
      ASSERT_TRUE(caller.engine.wait_until([&] { return answered == i + 1 || gone(); }, soon())) << round;
    }
    EXPECT_TRUE(caller.engine.wait_until(gone, soon()));
    raylet.join();
  }
}

// Two processes under random SIGSTOP and SIGCONT: every call is answered.
TEST(HostilePeer, StopsLoseNoWakeUp) {
  auto pair = rpc::RingPair::create();
  ASSERT_TRUE(pair.ok());
  TestProcess caller;
  rpc::Doorbell bell = new_doorbell();
  const rpc::DoorbellFds ours = bell_fds(caller.engine.doorbell());
  rpc::DoorbellFds theirs = bell_fds(bell);
  Child callee([&] {
    TestSink sink;
    Engine engine(sink, std::move(bell), base::system_clock());
    sink.frame = [&](PeerId peer, const rpc::FrameHeader& header, Bytes body) { engine.send(peer, header, {body}); };
    std::lock_guard hold(engine.baton());
    (void)engine.add_ring_peer(
        {duplicate(pair->fd.get()),
         false,
         0,
         0,
         {duplicate(ours.page.get()), duplicate(ours.main.get()), duplicate(ours.service.get())}});
    engine.wait_until([] { return false; });
  });
  std::atomic<bool> over{false};
  std::thread stopper([&] {
    std::mt19937 random(3);
    while (!over) {
      ::kill(callee.pid(), SIGSTOP);
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
      ::kill(callee.pid(), SIGCONT);
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    }
  });
  uint64_t answered = 0;
  caller.sink.frame = [&](PeerId, const rpc::FrameHeader&, Bytes) { ++answered; };
  {
    std::lock_guard hold(caller.engine.baton());
    auto peer = caller.engine.add_ring_peer({duplicate(pair->fd.get()), true, 0, 0, std::move(theirs)});
    EXPECT_TRUE(peer.ok());
    for (uint64_t i = 0; i < 20'000; ++i) {
      caller.engine.send(*peer, call(i), {});
      const bool in_time = caller.engine.wait_until([&] { return answered == i + 1; }, soon());
      EXPECT_TRUE(in_time) << i;
      if (!in_time) break;
    }
  }
  over = true;
  stopper.join();
}

}  // namespace
}  // namespace rayo::worker
