// Two processes with a progress engine each, as a driver and a worker have it: calls go into a flat mailbox,
// run one after the other in run_user, and are answered. The other end is a child process that lives as long
// as the object.
#pragma once

#include <fcntl.h>
#include <memory>
#include <mutex>
#include <vector>

#include "bench/references.h"
#include "runtime/base/clock.h"
#include "runtime/rpc/tls_pump.h"
#include "runtime/worker/engine.h"

namespace rayo::bench {

using worker::Bytes;
using worker::Engine;
using worker::PeerId;

inline base::Fd duplicate(int fd) { return base::Fd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

template <class T>
T must(base::StatusOr<T> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "%s\n", std::string(base::message(value.status())).c_str());
    std::abort();
  }
  return std::move(*value);
}

// The sink of either end.
class BenchSink : public worker::Sink {
 public:
  void on_frame(PeerId peer, const rpc::FrameHeader& header, Bytes body) override {
    if (header.kind == rpc::FrameKind::kReply) {
      ++((header.flags & rpc::kFlagUrgent) != 0 ? urgent_replies : replies);
      return;
    }
    if ((header.flags & rpc::kFlagUrgent) != 0) {  // a reference request: answered at once, whoever drives
      rpc::FrameHeader reply = header;
      reply.kind = rpc::FrameKind::kReply;
      engine->send(peer, reply, {body});
      return;
    }
    mailbox.append(&peer, sizeof peer);
    mailbox.append(&header, sizeof header);
    mailbox.append(body.data(), body.size());
  }
  void on_peer_closed(PeerId, const base::Status&) override { closed = true; }
  void on_raylet_frame(const rpc::FrameHeader&, Bytes, std::vector<base::Fd>&) override {}
  void on_raylet_closed(const base::Status&) override {}
  base::TimePoint next_deadline() override { return base::kForever; }
  void on_deadline(base::TimePoint) override {}
  bool outstanding() override { return false; }

  Engine* engine = nullptr;
  rpc::FlatBuffer mailbox;
  uint64_t replies = 0;
  uint64_t urgent_replies = 0;
  bool closed = false;
};

inline void serve_call(Engine& engine, BenchSink& sink, const std::function<void()>& work, bool long_work) {
  PeerId peer;
  rpc::FrameHeader header;
  std::memcpy(&peer, sink.mailbox.bytes().data(), sizeof peer);
  std::memcpy(&header, sink.mailbox.bytes().data() + sizeof peer, sizeof header);
  std::array<std::byte, kFrameBytes> body;
  std::memcpy(body.data(), sink.mailbox.bytes().data() + sizeof peer + sizeof header, header.length);
  sink.mailbox.consume(sizeof peer + sizeof header + header.length);
  engine.run_user(long_work, work);
  header.kind = rpc::FrameKind::kReply;
  engine.send(peer, header, {Bytes(body.data(), header.length)});
}

// A callee's life: a call a method, as long as `work` takes. As in a worker, what stands ready runs without a wait in
// between, and a wait lets everything out.
inline void serve_calls(Engine& engine, BenchSink& sink, const std::function<void()>& work, bool long_work) {
  engine.start_service();
  std::lock_guard hold(engine.baton());
  while (!sink.closed) {
    engine.wait_until([&] { return !sink.mailbox.empty() || sink.closed; });
    while (!sink.mailbox.empty() && !sink.closed) serve_call(engine, sink, work, long_work);
  }
}

struct EchoOptions {
  bool tcp = false;
  bool tls = false;    // over tcp, as between machines
  int idle_peers = 0;  // further ring peers of both ends that never say anything
  std::function<void()> work = [] {};
  bool long_work = false;
};

class EngineEcho {
 public:
  explicit EngineEcho(EchoOptions options = {})
      : options_(std::move(options)),
        here_(must(rpc::Doorbell::create())),
        there_(must(rpc::Doorbell::create())),
        idle_(must(rpc::Doorbell::create())),
        pair_(must(rpc::RingPair::create())),
        sockets_(options_.tcp ? tcp_pair() : std::pair{-1, -1}),
        child_([this] {
          BenchSink sink;
          Engine engine(sink, std::move(there_), base::system_clock());
          sink.engine = &engine;
          join(engine, false);
          serve_calls(engine, sink, options_.work, options_.long_work);
        }),
        engine_(sink_, std::move(here_), base::system_clock()) {
    sink_.engine = &engine_;
    peer_ = join(engine_, true);
    if (options_.tcp) ::close(sockets_.second);
    engine_.start_service();
  }
  EngineEcho(const EngineEcho&) = delete;
  // The other end.
  void stay_on(size_t core) const { child_.stay_on(core); }

  void call() {
    std::lock_guard hold(engine_.baton());
    const uint64_t answered = sink_.replies;
    engine_.send(peer_, new_call(), {body()});
    engine_.wait_until([&] { return sink_.replies != answered; }, base::kForever, peer_);
  }
  // The p50 of urgent requests while the other end always has methods to run.
  double urgent_p50_us(int count) {
    std::lock_guard hold(engine_.baton());
    uint64_t sent = sink_.replies;
    return p50_us(
        count,
        [&] {
          for (; sent - sink_.replies < 3; ++sent) engine_.send(peer_, new_call(), {body()});
          engine_.flush();
          engine_.wait_until([] { return false; }, base::system_clock().now() + std::chrono::milliseconds(1));
        },
        [&] {
          const uint64_t answered = sink_.urgent_replies;
          rpc::FrameHeader request;
          request.flags = rpc::kFlagUrgent;
          engine_.send(peer_, request, {body()});
          engine_.wait_until([&] { return sink_.urgent_replies != answered; }, base::kForever, peer_);
        });
  }
  double calls_per_second(size_t window, std::chrono::duration<double> span) {
    std::lock_guard hold(engine_.baton());
    uint64_t sent = sink_.replies;
    const uint64_t before = sent;
    const auto begin = std::chrono::steady_clock::now();
    while (seconds_since(begin) < span.count()) {
      for (; sent - sink_.replies < window; ++sent) engine_.send(peer_, new_call(), {body()});
      engine_.wait_until([&] { return sent - sink_.replies < window; }, base::kForever, peer_);
    }
    const double rate = static_cast<double>(sink_.replies - before) / seconds_since(begin);
    engine_.wait_until([&] { return sink_.replies == sent; });
    return rate;
  }

 private:
  static Bytes body() {
    static const std::array<std::byte, kFrameBytes - sizeof(rpc::FrameHeader)> content{};
    return content;
  }
  rpc::FrameHeader new_call() {
    rpc::FrameHeader header;
    header.kind = rpc::FrameKind::kCall;
    header.call_id = ++calls_;
    return header;
  }
  static rpc::DoorbellFds fds(const rpc::Doorbell& bell) {
    return {duplicate(bell.page_fd()), duplicate(bell.main_fd()), duplicate(bell.service_fd())};
  }
  std::unique_ptr<rpc::TlsPump> tls(bool client) const {
    if (!options_.tls) return nullptr;
    const rpc::Secret key{7};
    return std::make_unique<rpc::TlsPump>(client ? rpc::TlsPump::client(key) : rpc::TlsPump::server(key));
  }
  PeerId join(Engine& engine, bool first) {
    std::lock_guard hold(engine.baton());
    for (int i = 1; i <= options_.idle_peers; ++i) {
      rpc::RingPair pair = must(rpc::RingPair::create());
      const auto bit = static_cast<uint32_t>(i);
      must(engine.add_ring_peer({std::move(pair.fd), true, bit, bit, fds(idle_)}));
    }
    if (options_.tcp) return must(engine.add_tcp_peer(base::Fd(first ? sockets_.first : sockets_.second), tls(first)));
    return must(engine.add_ring_peer({duplicate(pair_.fd.get()), first, 0, 0, fds(first ? there_ : here_)}));
  }

  EchoOptions options_;
  rpc::Doorbell here_;
  rpc::Doorbell there_;
  rpc::Doorbell idle_;
  rpc::RingPair pair_;
  std::pair<int, int> sockets_;
  Child child_;
  BenchSink sink_;
  Engine engine_;
  PeerId peer_ = worker::kNoPeer;
  uint64_t calls_ = 0;
};

}  // namespace rayo::bench
