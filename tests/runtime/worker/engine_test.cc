// If this fails, calls between processes of a node are lost, hang, or take a process down with them.
#include "runtime/worker/engine.h"

#include <array>
#include <atomic>
#include <gtest/gtest.h>
#include <random>
#include <sched.h>
#include <sys/socket.h>
#include <utility>

#include "tests/runtime/worker/two_engines.h"
#include "tests/testkit/manual_clock.h"

namespace rayo::worker {
namespace {

using namespace std::chrono_literals;

rpc::FrameHeader call(uint64_t id) {
  rpc::FrameHeader header;
  header.kind = rpc::FrameKind::kCall;
  header.call_id = id;
  return header;
}

TEST(Engine, ACallIsAnswered) {
  TestProcess caller, callee;
  const Link ring = link(caller, callee);
  std::string answer;
  caller.sink.frame = [&](PeerId peer, const rpc::FrameHeader& header, Bytes body) {
    EXPECT_EQ(peer, ring.at_a);
    EXPECT_EQ(header.call_id, 7u);
    answer = as_text(body);
  };
  EchoServer server(callee);
  std::lock_guard hold(caller.engine.baton());
  ASSERT_TRUE(caller.engine.send(ring.at_a, call(7), {as_bytes("hel"), as_bytes("lo")}));
  ASSERT_TRUE(caller.engine.wait_until([&] { return !answer.empty(); }, soon()));
  EXPECT_EQ(answer, "hello");
}

TEST(Engine, AWaitEndsAtItsDeadline) {
  TestProcess alone;
  std::lock_guard hold(alone.engine.baton());
  EXPECT_FALSE(alone.engine.wait_until([] { return false; }, base::system_clock().now() + 20ms));
}

TEST(Engine, ALongBodyGoesInPieces) {
  TestProcess caller, callee;
  const Link ring = link(caller, callee);
  std::string answer;
  caller.sink.frame = [&](PeerId, const rpc::FrameHeader&, Bytes body) { answer = as_text(body); };
  EchoServer server(callee);
  std::lock_guard hold(caller.engine.baton());
  for (const size_t size : {size_t{32704}, size_t{32705}, size_t{100'000}, size_t{5'000'001}, size_t{16} << 20}) {
    std::string body(size, 'x');
    for (size_t i = 0; i < size; i += 997) body[i] = static_cast<char>('a' + i % 23);
    answer.clear();
    ASSERT_TRUE(caller.engine.send(ring.at_a, call(1), {as_bytes(body)}));
    ASSERT_TRUE(caller.engine.wait_until([&] { return !answer.empty(); }, soon()));
    EXPECT_EQ(answer, body) << size;
  }
  EXPECT_FALSE(caller.engine.send(ring.at_a, call(1), {as_bytes(std::string((16u << 20) + 1, 'x'))}));
}

// Thousands of calls on their way at once, more than ring and backlog hold: refused beyond the limit,
// answered in order, none lost.
TEST(Engine, BackpressureRefusesAndLosesNothing) {
  TestProcess caller, callee;
  const Link ring = link(caller, callee);
  uint64_t answered = 0;
  bool in_order = true;
  caller.sink.frame = [&](PeerId, const rpc::FrameHeader& header, Bytes) { in_order &= header.call_id == ++answered; };
  std::lock_guard hold(caller.engine.baton());
  const std::string body(1000, 'b');
  uint64_t sent = 0;
  while (caller.engine.send(ring.at_a, call(sent + 1), {as_bytes(body)})) ++sent;
  EXPECT_GT(sent, 1000u);
  EXPECT_LE(caller.engine.backlog(ring.at_a), kMaxBacklog);
  EchoServer server(callee);
  for (; sent < 100'000; ++sent) {
    ASSERT_TRUE(caller.engine.wait_until(
        [&] { return caller.engine.send(ring.at_a, call(sent + 1), {as_bytes(body)}); }, soon()));
  }
  ASSERT_TRUE(caller.engine.wait_until([&] { return answered == sent; }, soon()));
  EXPECT_TRUE(in_order);
}

TEST(Engine, BothSidesFloodAndNeitherStands) {
  TestProcess a, b;
  const Link ring = link(a, b);
  constexpr uint64_t kCalls = 50'000;
  const std::string body(700, 'f');
  const auto flood = [&](TestProcess& me, PeerId peer) {
    uint64_t got = 0;
    me.sink.frame = [&](PeerId, const rpc::FrameHeader&, Bytes) { ++got; };
    std::lock_guard hold(me.engine.baton());
    for (uint64_t i = 0; i < kCalls; ++i)
      ASSERT_TRUE(me.engine.wait_until([&] { return me.engine.send(peer, call(i), {as_bytes(body)}); }, soon()));
    EXPECT_TRUE(me.engine.wait_until([&] { return got == kCalls && me.engine.backlog(peer) == 0; }, soon()));
    me.engine.flush();
    me.sink.frame = [](PeerId, const rpc::FrameHeader&, Bytes) {};
  };
  std::thread other([&] { flood(b, ring.at_b); });
  flood(a, ring.at_a);
  other.join();
}

// Urgent frames and credits are served by the service thread while the process's own thread computes.
TEST(Engine, TheServiceThreadStandsIn) {
  TestProcess caller, callee;
  const Link ring = link(caller, callee);
  callee.engine.start_service();
  bool answered = false;
  caller.sink.frame = [&](PeerId, const rpc::FrameHeader&, Bytes) { answered = true; };
  callee.sink.frame = [&](PeerId peer, const rpc::FrameHeader& header, Bytes) {
    rpc::FrameHeader reply = header;
    callee.engine.send(peer, reply, {});
  };
  for (const bool told : {true, false}) {
    std::atomic<bool> computing{false}, enough{false};
    std::thread worker([&] {
      std::lock_guard hold(callee.engine.baton());
      callee.engine.run_user(told, [&] {
        computing = true;
        while (!enough) std::this_thread::yield();
      });
    });
    while (!computing) std::this_thread::yield();
    std::unique_lock hold(caller.engine.baton());
    for (int i = 0; i < 200; ++i) {
      answered = false;
      rpc::FrameHeader header;
      header.flags = rpc::kFlagUrgent;
      ASSERT_TRUE(caller.engine.send(ring.at_a, header, {}));
      EXPECT_TRUE(caller.engine.wait_until([&] { return answered; }, soon())) << i << told;
    }
    hold.unlock();
    enough = true;
    worker.join();
  }
}

TEST(Engine, DeadlinesPassWhileUserCodeRuns) {
  TestProcess process;
  process.engine.start_service();
  std::unique_lock hold(process.engine.baton());
  process.sink.deadline = base::system_clock().now() + 5ms;
  bool passed = false;
  const base::TimePoint limit = soon();
  process.engine.run_user(true, [&] {
    while (!passed && base::system_clock().now() < limit) {
      std::this_thread::yield();
      std::lock_guard look(process.engine.baton());
      passed = process.sink.deadline_passed;
    }
  });
  EXPECT_TRUE(passed);
}

TEST(Engine, PostsRunWhoeverIsAwake) {
  struct Counted : Posted {
    std::atomic<int>* done;
  };
  TestProcess process;
  process.engine.start_service();
  std::atomic<int> done{0};
  constexpr int kThreads = 4, kEach = 5000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        auto* item = new Counted;
        item->done = &done;
        item->run = [](Posted* self) {
          ++*static_cast<Counted*>(self)->done;
          delete static_cast<Counted*>(self);
        };
        process.engine.post(item);
      }
    });
  for (auto& thread : threads) thread.join();
  const base::TimePoint limit = soon();
  while (done != kThreads * kEach && base::system_clock().now() < limit) std::this_thread::yield();
  EXPECT_EQ(done, kThreads * kEach);
}

// Several threads of one user wait at once: one drives, the role is handed on, everybody gets its own answer.
TEST(Engine, ThreadsShareOneEngine) {
  TestProcess caller, callee;
  const Link ring = link(caller, callee);
  caller.engine.start_service();
  std::vector<uint64_t> answers(8, 0);
  caller.sink.frame = [&](PeerId, const rpc::FrameHeader& header, Bytes) {
    answers[header.call_id % 8] = header.call_id;
  };
  EchoServer server(callee);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < answers.size(); ++t)
    threads.emplace_back([&, t] {
      for (uint64_t i = 1; i <= 3000; ++i) {
        std::lock_guard hold(caller.engine.baton());
        const uint64_t id = i * 8 + t;
        ASSERT_TRUE(caller.engine.send(ring.at_a, call(id), {}));
        ASSERT_TRUE(caller.engine.wait_until([&] { return answers[t] == id; }, soon(), ring.at_a));
      }
    });
  for (auto& thread : threads) thread.join();
}

// A wake-up that is lost between arming and sleeping shows as a wait that runs into its deadline: nothing
// here has a safety net.
TEST(Engine, NoWakeUpIsLost) {
  TestProcess caller, callee;
  const Link ring = link(caller, callee);
  EchoServer server(callee);
  bool answered = false;
  caller.sink.frame = [&](PeerId, const rpc::FrameHeader&, Bytes) { answered = true; };
  std::mt19937 random(1);
  std::lock_guard hold(caller.engine.baton());
  for (uint64_t i = 0; i < 20'000; ++i) {
    if (i % 8 == 0) {  // both sides at every distance from falling asleep
      const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(random() % 20'000);
      while (std::chrono::steady_clock::now() < until) {
      }
    }
    answered = false;
    ASSERT_TRUE(caller.engine.send(ring.at_a, call(i), {}));
    ASSERT_TRUE(caller.engine.wait_until([&] { return answered; }, soon())) << i;
  }
}

TEST(Engine, AClosedMarkIsADeath) {
  TestProcess caller, callee;
  Link ring = link(caller, callee);
  std::string last;
  caller.sink.frame = [&](PeerId, const rpc::FrameHeader&, Bytes body) { last = as_text(body); };
  {
    std::lock_guard hold(callee.engine.baton());
    callee.engine.send(ring.at_b, call(1), {as_bytes("last words")});
    callee.engine.flush();
  }
  std::thread raylet([&] {  // reaps the callee
    ring.mark.close();
    auto bell = rpc::PeerDoorbell::map(bell_fds(caller.engine.doorbell()));
    ASSERT_TRUE(bell.ok());
    bell->ring(0, true);
  });
  std::lock_guard hold(caller.engine.baton());
  EXPECT_TRUE(caller.engine.wait_until([&] { return !caller.sink.closed.empty(); }, soon()));
  EXPECT_EQ(last, "last words");
  EXPECT_EQ(caller.sink.closed, std::vector<PeerId>{ring.at_a});
  EXPECT_FALSE(caller.engine.send(ring.at_a, call(2), {}));
  raylet.join();
}

TEST(Engine, AForgottenPeerIsNewWhenItComesAgain) {
  TestProcess a, b;
  const Link first = link(a, b);
  {
    std::lock_guard hold(a.engine.baton());
    a.engine.close(first.at_a);
    EXPECT_FALSE(a.engine.send(first.at_a, call(1), {}));
  }
  {
    std::lock_guard hold(b.engine.baton());
    EXPECT_TRUE(b.engine.wait_until([&] { return b.sink.closed.size() == 1; }, soon()));
  }
  const Link second = link(a, b);
  EXPECT_NE(first.at_a, second.at_a);
  EchoServer server(b);
  bool answered = false;
  a.sink.frame = [&](PeerId peer, const rpc::FrameHeader&, Bytes) { answered = peer == second.at_a; };
  std::lock_guard hold(a.engine.baton());
  EXPECT_TRUE(a.engine.send(second.at_a, call(1), {}));
  EXPECT_TRUE(a.engine.wait_until([&] { return answered; }, soon()));
  EXPECT_TRUE(a.sink.closed.empty());
}

TEST(Engine, SocketsCarryTheSameFrames) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  TestProcess caller, callee;
  PeerId to_callee = kNoPeer;
  {
    std::lock_guard hold(caller.engine.baton());
    to_callee = caller.engine.add_tcp_peer(base::Fd(ends[0]), nullptr).value_or(kNoPeer);
  }
  {
    std::lock_guard hold(callee.engine.baton());
    ASSERT_TRUE(callee.engine.add_tcp_peer(base::Fd(ends[1]), nullptr).ok());
  }
  EchoServer server(callee);
  size_t got = 0;
  caller.sink.frame = [&](PeerId, const rpc::FrameHeader&, Bytes body) { got += body.size(); };
  std::lock_guard hold(caller.engine.baton());
  size_t expected = 0;
  for (const size_t size : {size_t{0}, size_t{40}, size_t{70'000}, size_t{9'000'000}}) {
    ASSERT_TRUE(caller.engine.send(to_callee, call(size), {as_bytes(std::string(size, 's'))}));
    expected += size;
  }
  EXPECT_TRUE(caller.engine.wait_until([&] { return got == expected; }, soon()));
}

// Calls made one after the other without a wait leave together, and the last of them are not left behind.
TEST(Engine, ABurstOverASocketLeavesByItself) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  TestProcess caller, callee;
  caller.engine.start_service();
  PeerId to_callee = kNoPeer;
  {
    std::lock_guard hold(caller.engine.baton());
    to_callee = caller.engine.add_tcp_peer(base::Fd(ends[0]), nullptr).value_or(kNoPeer);
  }
  {
    std::lock_guard hold(callee.engine.baton());
    ASSERT_TRUE(callee.engine.add_tcp_peer(base::Fd(ends[1]), nullptr).ok());
  }
  EchoServer server(callee);
  for (uint64_t i = 0; i < 1000; ++i) {
    std::lock_guard hold(caller.engine.baton());
    ASSERT_TRUE(caller.engine.send(to_callee, call(i), {}));
    caller.engine.flush();
  }
  const base::TimePoint limit = soon();
  while (server.answered() != 1000 && base::system_clock().now() < limit) std::this_thread::yield();
  EXPECT_EQ(server.answered(), 1000u);
}

// A call that is taken for short may take long once: what was answered before it must not wait for its end.
TEST(Engine, WhatWasSentBeforeUserCodeThatTurnsOutLongArrivesMeanwhile) {
  for (const bool ring : {true, false}) {
    TestProcess caller, callee;
    callee.engine.start_service();
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    PeerId to_caller = kNoPeer;
    if (ring) {
      to_caller = link(caller, callee).at_b;
    } else {
      std::scoped_lock hold(caller.engine.baton(), callee.engine.baton());
      to_caller = callee.engine.add_tcp_peer(duplicate(ends[0]), nullptr).value_or(kNoPeer);
      ASSERT_TRUE(caller.engine.add_tcp_peer(duplicate(ends[1]), nullptr).ok());
    }
    std::atomic<bool> arrived{false};
    caller.sink.frame = [&](PeerId, const rpc::FrameHeader&, Bytes) { arrived = true; };
    std::thread waits([&] {
      std::lock_guard hold(caller.engine.baton());
      caller.engine.wait_until([&] { return arrived.load(); }, soon());
    });
    {
      std::lock_guard hold(callee.engine.baton());
      EXPECT_TRUE(callee.engine.send(to_caller, call(1), {}));
      callee.engine.run_user(false, [&, limit = soon(20s)] {
        while (!arrived && base::system_clock().now() < limit) std::this_thread::yield();
      });
    }
    EXPECT_TRUE(arrived) << (ring ? "ring" : "socket");
    waits.join();
    ::close(ends[0]), ::close(ends[1]);
  }
}

// Answers of many calls in a row leave in one write; those of a task before the next one begins.
TEST(Engine, FramesOverASocketWaitForEachOtherUntilTheyAreHandedOver) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const base::Fd other(ends[1]);
  TestProcess process;
  std::lock_guard hold(process.engine.baton());
  const PeerId peer = process.engine.add_tcp_peer(base::Fd(ends[0]), nullptr).value_or(kNoPeer);
  std::array<char, 2000> bytes;
  const auto arrived = [&] { return ::recv(other.get(), bytes.data(), bytes.size(), MSG_DONTWAIT); };
  for (uint64_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(process.engine.send(peer, call(i), {}));
    process.engine.flush_rings();
  }
  EXPECT_EQ(arrived(), -1);
  process.engine.flush();
  EXPECT_EQ(arrived(), 10 * static_cast<ssize_t>(sizeof(rpc::FrameHeader)));
  ASSERT_TRUE(process.engine.send(peer, call(11), {}));
  process.engine.hand_over();
  EXPECT_EQ(arrived(), static_cast<ssize_t>(sizeof(rpc::FrameHeader)));
}

TEST(Engine, TheRayletsDescriptorsComeWithTheirFrame) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  TestProcess worker, raylet;
  std::vector<size_t> counts;
  raylet.sink.raylet_frame = [&](const rpc::FrameHeader&, Bytes, std::vector<base::Fd>& fds) {
    counts.push_back(fds.size());
  };
  {
    std::lock_guard hold(worker.engine.baton());
    ASSERT_TRUE(worker.engine.attach_raylet(base::Fd(ends[0]), nullptr).ok());
    const std::vector<int> three{0, 1, 2}, one{0};
    worker.engine.send_raylet({}, as_bytes("none"), {});
    worker.engine.send_raylet({}, as_bytes("three"), three);
    worker.engine.send_raylet({}, as_bytes("one"), one);
    worker.engine.send_raylet({}, as_bytes("none"), {});
    worker.engine.flush();
  }
  std::lock_guard hold(raylet.engine.baton());
  ASSERT_TRUE(raylet.engine.attach_raylet(base::Fd(ends[1]), nullptr).ok());
  EXPECT_TRUE(raylet.engine.wait_until([&] { return counts.size() == 4; }, soon()));
  EXPECT_EQ(counts, (std::vector<size_t>{0, 3, 1, 0}));
}

// A reply that lies in the ring when the raylet tells of the callee's death is still a reply; and the dead
// one's bit may be given to the next peer in the same breath.
TEST(Engine, APeersLastWordsComeBeforeTheRayletsWordOfItsDeath) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  TestProcess caller, first, second, raylet;
  Link ring = link(caller, first);
  {
    std::lock_guard hold(raylet.engine.baton());
    ASSERT_TRUE(raylet.engine.attach_raylet(base::Fd(ends[1]), nullptr).ok());
  }
  std::vector<std::string> heard;
  caller.sink.frame = [&](PeerId, const rpc::FrameHeader&, Bytes) { heard.push_back("reply"); };
  caller.sink.gone = [&](PeerId) { heard.push_back("closed"); };
  caller.sink.raylet_frame = [&](const rpc::FrameHeader&, Bytes body, std::vector<base::Fd>&) {
    heard.emplace_back(as_text(body));
    if (heard.back() != "link") return;
    auto pair = rpc::RingPair::create();
    EXPECT_TRUE(
        caller.engine.add_ring_peer({std::move(pair->fd), true, 0, 0, bell_fds(second.engine.doorbell())}).ok());
  };
  std::lock_guard hold(caller.engine.baton());
  ASSERT_TRUE(caller.engine.attach_raylet(base::Fd(ends[0]), nullptr).ok());
  {
    std::lock_guard other(first.engine.baton());
    first.engine.send(ring.at_b, call(1), {});
    first.engine.flush();
  }
  ring.mark.close();
  auto bell = rpc::PeerDoorbell::map(bell_fds(caller.engine.doorbell()));
  ASSERT_TRUE(bell.ok());
  bell->ring(0, true);
  {
    std::lock_guard other(raylet.engine.baton());
    raylet.engine.send_raylet({}, as_bytes("gone"), {});
    raylet.engine.send_raylet({}, as_bytes("link"), {});
    raylet.engine.flush();
  }
  EXPECT_TRUE(caller.engine.wait_until([&] { return heard.size() == 4; }, soon()));
  EXPECT_EQ(heard, (std::vector<std::string>{"reply", "closed", "gone", "link"}));
}

// Of three threads the one that drives ends; the role falls to one whose own time is over, which has to pass it on.
TEST(Engine, AThreadWhoseTimeIsOverPassesTheDriversRoleOn) {
  testkit::ManualClock clock;
  TestProcess caller, waiting(clock);
  const Link ring = link(caller, waiting);
  bool enough = false, arrived = false;
  waiting.sink.frame = [&](PeerId, const rpc::FrameHeader&, Bytes) { arrived = true; };
  WaitingThread driver(waiting, [&] { return enough; });
  WaitingThread late(
      waiting, [] { return false; }, clock.now() + 1h);
  WaitingThread last(waiting, [&] { return arrived; });
  {
    std::lock_guard hold(waiting.engine.baton());
    clock.advance(2h);
    enough = true;
    waiting.engine.wake();
  }
  EXPECT_TRUE(driver.ends());
  EXPECT_TRUE(late.ends());
  {
    std::lock_guard hold(caller.engine.baton());
    EXPECT_TRUE(caller.engine.send(ring.at_a, call(1), {}));
    caller.engine.flush();
  }
  EXPECT_TRUE(last.ends());
}

// A driver looks at the sockets once more before its time is over, and finds there what another waits for.
TEST(Engine, WhatADriverReadsForAnotherAsItLeavesIsNotForgotten) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  testkit::ManualClock clock;
  TestProcess caller, waiting(clock);
  PeerId peer = kNoPeer;
  {
    std::scoped_lock hold(caller.engine.baton(), waiting.engine.baton());
    peer = caller.engine.add_tcp_peer(base::Fd(ends[0]), nullptr).value_or(kNoPeer);
    ASSERT_TRUE(waiting.engine.add_tcp_peer(base::Fd(ends[1]), nullptr).ok());
  }
  bool begin = false, arrived = false;
  waiting.sink.frame = [&](PeerId, const rpc::FrameHeader&, Bytes) { arrived = true; };
  const auto arrives_as_its_time_ends = [&] {
    if (!std::exchange(begin, false)) return false;
    std::lock_guard hold(caller.engine.baton());
    EXPECT_TRUE(caller.engine.send(peer, call(1), {}));
    caller.engine.flush();
    clock.advance(2h);
    return false;
  };
  WaitingThread driver(waiting, arrives_as_its_time_ends, clock.now() + 1h);
  WaitingThread next(waiting, [] { return false; });
  WaitingThread last(waiting, [&] { return arrived; });
  {
    std::lock_guard hold(waiting.engine.baton());
    begin = true;
    waiting.engine.doorbell().wake_main();
  }
  EXPECT_TRUE(driver.ends());
  EXPECT_TRUE(last.ends());
}

// A thread of the user's sleeps in the engine while the main thread runs one long call after the other: nothing here has
// a safety net, and so a call that rings nobody shows.
TEST(Engine, AThreadThatSleepsStaysOnDutyWhileAnotherRunsLongCalls) {
  TestProcess caller, callee;
  const Link ring = link(caller, callee);
  uint64_t came = 0, answered = 0;
  bool stop = false;
  callee.sink.frame = [&](PeerId, const rpc::FrameHeader& header, Bytes) { came = header.call_id; };
  WaitingThread other(callee, [] { return false; });
  std::thread main([&] {
    std::lock_guard hold(callee.engine.baton());
    while (callee.engine.wait_until([&] { return stop || came != answered; }), !stop) {
      callee.engine.run_user(true, [until = std::chrono::steady_clock::now() + 100us] {
        while (std::chrono::steady_clock::now() < until) ::sched_yield();
      });
      answered = came;
      callee.engine.send(ring.at_b, call(answered), {});
    }
  });
  uint64_t heard = 0;
  caller.sink.frame = [&](PeerId, const rpc::FrameHeader& header, Bytes) { heard = header.call_id; };
  {
    std::lock_guard hold(caller.engine.baton());
    for (uint64_t id = 1; id <= 50 && heard == id - 1; ++id) {
      EXPECT_TRUE(caller.engine.send(ring.at_a, call(id), {}));
      EXPECT_TRUE(caller.engine.wait_until([&] { return heard == id; }, soon(10s))) << id;
    }
  }
  {
    std::lock_guard hold(callee.engine.baton());
    stop = true;
    callee.engine.wake();
  }
  main.join();
}

// Between two calls the main thread looks around, while another sleeps in the engine: it takes nobody's wake-up.
TEST(Engine, AThreadThatLooksAroundTakesNoWakeUpFromOneThatSleeps) {
  for (const bool rings : {true, false}) {
    TestProcess caller, callee;
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    PeerId peer = kNoPeer;
    if (rings) peer = link(caller, callee).at_a;
    if (!rings) {
      std::scoped_lock hold(caller.engine.baton(), callee.engine.baton());
      peer = caller.engine.add_tcp_peer(duplicate(ends[0]), nullptr).value_or(kNoPeer);
      ASSERT_TRUE(callee.engine.add_tcp_peer(duplicate(ends[1]), nullptr).ok());
    }
    ::close(ends[0]), ::close(ends[1]);
    EchoServer server(callee);
    std::atomic<bool> stop{false};
    std::thread looks([&] {
      while (!stop) {
        {
          std::lock_guard hold(caller.engine.baton());
          caller.engine.poll();
        }
        ::sched_yield();
      }
    });
    bool answered = false;
    caller.sink.frame = [&](PeerId, const rpc::FrameHeader&, Bytes) { answered = true; };
    {
      std::lock_guard hold(caller.engine.baton());
      for (uint64_t i = 0; i < 5'000 && !testing::Test::HasFailure(); ++i) {
        answered = false;
        EXPECT_TRUE(caller.engine.send(peer, call(i), {}));
        EXPECT_TRUE(caller.engine.wait_until([&] { return answered; }, soon(10s)))
            << i << (rings ? " ring" : " socket");
      }
    }
    stop = true;
    looks.join();
  }
}

}  // namespace
}  // namespace rayo::worker
