// Engines in one process that act as processes of one node: each has its doorbell, and a pair of rings
// between two of them as a raylet would make it.
#pragma once

#include <fcntl.h>
#include <functional>
#include <gtest/gtest.h>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/rpc/tls_pump.h"
#include "runtime/worker/engine.h"

namespace rayo::worker {

inline base::Fd duplicate(int fd) { return base::Fd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

inline rpc::DoorbellFds bell_fds(rpc::Doorbell& bell) {
  return {duplicate(bell.page_fd()), duplicate(bell.main_fd()), duplicate(bell.service_fd())};
}

inline rpc::Doorbell new_doorbell() {
  auto bell = rpc::Doorbell::create();
  EXPECT_TRUE(bell.ok()) << bell.status();
  return std::move(*bell);
}

inline Bytes as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }
inline std::string_view as_text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

inline base::TimePoint soon(std::chrono::seconds span = std::chrono::seconds(60)) {
  return base::system_clock().now() + span;
}

// What a test's process does with what arrives; everything under the baton.
class TestSink : public Sink {
 public:
  void on_frame(PeerId peer, const rpc::FrameHeader& header, Bytes body) override { frame(peer, header, body); }
  void on_peer_closed(PeerId peer, const base::Status& why) override {
    closed.push_back(peer);
    why_closed = why;
    if (gone) gone(peer);
  }
  void on_raylet_frame(const rpc::FrameHeader& header, Bytes body, std::vector<base::Fd>& fds) override {
    if (raylet_frame) raylet_frame(header, body, fds);
  }
  void on_raylet_closed(const base::Status&) override { raylet_closed = true; }
  base::TimePoint next_deadline() override { return deadline; }
  void on_deadline(base::TimePoint) override {
    deadline = base::kForever;
    deadline_passed = true;
  }
  bool outstanding() override { return expects; }

  std::function<void(PeerId, const rpc::FrameHeader&, Bytes)> frame = [](PeerId, const rpc::FrameHeader&, Bytes) {};
  std::function<void(PeerId)> gone;
  std::function<void(const rpc::FrameHeader&, Bytes, std::vector<base::Fd>&)> raylet_frame;
  std::vector<PeerId> closed;
  base::Status why_closed;
  base::TimePoint deadline = base::kForever;
  bool deadline_passed = false;
  bool raylet_closed = false;
  bool expects = false;
};

// One process: its engine and what arrives at it.
struct TestProcess {
  explicit TestProcess(const base::Clock& clock = base::system_clock()) : engine(sink, new_doorbell(), clock) {}
  TestSink sink;
  Engine engine;
};

struct Link {
  PeerId at_a = kNoPeer;  // b, as a knows it
  PeerId at_b = kNoPeer;
  rpc::ClosedMark mark;
};

// Rings between two processes, as PeerLink would bring them.
inline Link link(TestProcess& a, TestProcess& b, uint32_t bit_at_a = 0, uint32_t bit_at_b = 0) {
  auto pair = rpc::RingPair::create();
  EXPECT_TRUE(pair.ok()) << pair.status();
  Link made;
  made.mark = std::move(pair->closed_mark);
  {
    std::lock_guard hold(a.engine.baton());
    auto peer =
        a.engine.add_ring_peer({duplicate(pair->fd.get()), true, bit_at_b, bit_at_a, bell_fds(b.engine.doorbell())});
    EXPECT_TRUE(peer.ok()) << peer.status();
    made.at_a = peer.value_or(kNoPeer);
  }
  std::lock_guard hold(b.engine.baton());
  auto peer = b.engine.add_ring_peer({std::move(pair->fd), false, bit_at_a, bit_at_b, bell_fds(a.engine.doorbell())});
  EXPECT_TRUE(peer.ok()) << peer.status();
  made.at_b = peer.value_or(kNoPeer);
  return made;
}

// A thread that waits in an engine until `ready` holds or the deadline is over.
class WaitingThread {
 public:
  // Answers once it stands in line or drives: it is asked with the baton held, which it gives up when it sleeps.
  WaitingThread(TestProcess& process, std::function<bool()> ready, base::TimePoint deadline = base::kForever)
      : process_(process), ready_(std::move(ready)) {
    thread_ = std::thread([this, deadline] {
      std::lock_guard hold(process_.engine.baton());
      const auto asked = [this] {
        waits_ = true;
        return stop_ || ready_();
      };
      process_.engine.wait_until(asked, deadline);
      ended_ = true;
    });
    while (!look(waits_)) std::this_thread::yield();
  }
  ~WaitingThread() {
    {
      std::lock_guard hold(process_.engine.baton());
      stop_ = true;
      process_.engine.wake();
    }
    thread_.join();
  }
  // Whether its wait ends by itself.
  bool ends(std::chrono::seconds span = std::chrono::seconds(10)) {
    const base::TimePoint limit = soon(span);
    while (!look(ended_) && base::system_clock().now() < limit) std::this_thread::yield();
    return look(ended_);
  }

 private:
  bool look(const bool& what) {
    std::lock_guard hold(process_.engine.baton());
    return what;
  }

  TestProcess& process_;
  const std::function<bool()> ready_;
  std::thread thread_;
  bool waits_ = false;
  bool ended_ = false;
  bool stop_ = false;
};

// Answers each call with its own body until told to stop, on a thread of its own.
class EchoServer {
 public:
  explicit EchoServer(TestProcess& process) : process_(process) {
    process_.sink.frame = [this](PeerId peer, const rpc::FrameHeader& header, Bytes body) {
      if (header.kind != rpc::FrameKind::kCall) return;
      rpc::FrameHeader reply;
      reply.kind = rpc::FrameKind::kReply;
      reply.call_id = header.call_id;
      process_.engine.send(peer, reply, {body});
      ++answered_;
    };
    thread_ = std::thread([this] {
      std::lock_guard hold(process_.engine.baton());
      process_.engine.wait_until([this] { return stop_; });
    });
  }
  ~EchoServer() {
    {
      std::lock_guard hold(process_.engine.baton());
      stop_ = true;
      process_.engine.wake();
    }
    thread_.join();
  }
  uint64_t answered() {
    std::lock_guard hold(process_.engine.baton());
    return answered_;
  }

 private:
  TestProcess& process_;
  std::thread thread_;
  uint64_t answered_ = 0;
  bool stop_ = false;
};

}  // namespace rayo::worker
