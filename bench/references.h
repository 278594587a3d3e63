// What the call path is measured against: the barest exchange of 104-byte frames between two processes that
// each medium allows. Each reference is an object: its other end is a child process that echoes until the
// object goes.
#pragma once

#include <arpa/inet.h>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <emmintrin.h>
#include <functional>
#include <linux/futex.h>
#include <netinet/tcp.h>
#include <optional>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "bench/harness.h"

namespace rayo::bench {

inline constexpr size_t kFrameBytes = 104;
using Frame = std::array<char, kFrameBytes>;

// Keeps a thread there; `thread` 0: the calling one.
inline void put_on(pid_t thread, size_t core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  ::sched_setaffinity(thread, sizeof one, &one);
}

// A child process that runs `life` and is killed when this goes.
class Child {
 public:
  explicit Child(const std::function<void()>& life) : pid_(::fork()) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    life();
    ::_exit(0);
  }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }
  // Keeps it there from now on.
  void stay_on(size_t core) const { put_on(pid_, core); }

 private:
  pid_t pid_;
};

// Memory that children share; zero at first, unmapped with the object.
template <class T>
class Shared {
 public:
  Shared()
      : memory_(::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0)) {
    if (memory_ == MAP_FAILED) std::abort();
  }
  ~Shared() { ::munmap(memory_, sizeof(T)); }
  Shared(const Shared&) = delete;
  T* operator->() const { return static_cast<T*>(memory_); }
  T& operator*() const { return *static_cast<T*>(memory_); }

 private:
  void* memory_;
};

// A bare single-producer ring: copy, store the tail, wake a sleeper; spin 5 us where the other end runs on
// another core.
struct RawRing {
  static constexpr size_t kFrames = 512;
  alignas(64) std::atomic<uint32_t> tail;
  alignas(64) std::atomic<uint32_t> sleeping;
  std::atomic<uint32_t> core;
  alignas(64) std::array<Frame, kFrames> frames;

  void send(uint32_t& written, const Frame& frame) {
    frames[written % kFrames] = frame;
    tail.store(++written, std::memory_order_seq_cst);
    if (sleeping.load(std::memory_order_seq_cst) != 0) {
      sleeping.store(0);
      ::syscall(SYS_futex, &tail, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    }
  }
  void receive(uint32_t& read, Frame& frame, const std::atomic<uint32_t>& their_core) {
    while (tail.load(std::memory_order_acquire) == read) {
      const auto mine = static_cast<uint32_t>(::sched_getcpu());
      core.store(mine, std::memory_order_relaxed);
      if (their_core.load(std::memory_order_relaxed) != mine && spin(read)) break;
      sleeping.store(1, std::memory_order_seq_cst);
      if (tail.load(std::memory_order_seq_cst) == read)
        ::syscall(SYS_futex, &tail, FUTEX_WAIT, read, nullptr, nullptr, 0);
      sleeping.store(0, std::memory_order_relaxed);
    }
    frame = frames[read++ % kFrames];
  }
  bool spin(uint32_t read) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(5);
    for (uint32_t i = 1; tail.load(std::memory_order_acquire) == read; ++i) {
      _mm_pause();
      if (i % 16 == 0 && std::chrono::steady_clock::now() >= end) return false;
    }
    return true;
  }
};

// Where the two ends of a row are, those of its reference as those of its calls. Left alone, the kernel puts them on one
// core or on two as it happens, and to wake a core that rests costs here ten times what a wake on the same core does.
struct Ends {
  const char* suffix;
  size_t there;  // `here` is core 0
};
inline constexpr Ends kTwoCores{"", 1}, kOneCore{"_on_one_core", 0};

// Keeps the calling thread on one core until the object goes.
class OnCore {
 public:
  explicit OnCore(size_t core) {
    ::sched_getaffinity(0, sizeof before_, &before_);
    put_on(0, core);
  }
  ~OnCore() { ::sched_setaffinity(0, sizeof before_, &before_); }
  OnCore(const OnCore&) = delete;

 private:
  cpu_set_t before_;
};

// The other end runs on core 1: call() from a thread that is kept on core 0, or the scheduler may put both on one and
// the figure is that of a futex.
class RawRingEcho {
 public:
  RawRingEcho()
      : child_([this] {
          const OnCore other(1);
          Frame frame;
          for (uint32_t read = 0, written = 0;;) {
            rings_->there.receive(read, frame, rings_->back.core);
            rings_->back.send(written, frame);
          }
        }) {}
  void call() {
    rings_->there.send(written_, frame_);
    rings_->back.receive(read_, frame_, rings_->there.core);
  }

 private:
  struct Both {
    RawRing there, back;
  };
  Shared<Both> rings_;
  Child child_;
  Frame frame_{};
  uint32_t written_ = 0;
  uint32_t read_ = 0;
};

// Two eventfds, each end blocking in read.
class EventfdPingPong {
 public:
  EventfdPingPong()
      : there_(::eventfd(0, EFD_CLOEXEC)), back_(::eventfd(0, EFD_CLOEXEC)), child_([this] {
          for (;;) pass(there_, back_);
        }) {}
  ~EventfdPingPong() {
    ::close(there_);
    ::close(back_);
  }
  void stay_on(size_t core) const { child_.stay_on(core); }
  void call() {
    uint64_t one = 1;
    if (::write(there_, &one, sizeof one) < 0 || ::read(back_, &one, sizeof one) < 0) std::abort();
  }

 private:
  static void pass(int from, int to) {
    uint64_t count = 0;
    if (::read(from, &count, sizeof count) < 0) std::abort();
    count = 1;
    if (::write(to, &count, sizeof count) < 0) std::abort();
  }
  int there_, back_;
  Child child_;
};

// The two ends of a TCP connection over loopback, Nagle's delay off.
inline std::pair<int, int> tcp_pair() {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener, 1) != 0) std::abort();
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  const int here = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(here, reinterpret_cast<sockaddr*>(&address), size) != 0) std::abort();
  const int there = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  ::close(listener);
  const int one = 1;
  ::setsockopt(here, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  ::setsockopt(there, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return {here, there};
}

inline std::pair<int, int> unix_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  return {ends[0], ends[1]};
}

// One end of a blocking stream socket.
class PlainEnd {
 public:
  PlainEnd(int fd, bool) : fd_(fd) {}
  ~PlainEnd() { ::close(fd_); }
  PlainEnd(const PlainEnd&) = delete;
  ssize_t read(void* to, size_t room) { return ::read(fd_, to, room); }
  ssize_t write(const void* from, size_t size) { return ::write(fd_, from, size); }

 private:
  int fd_;
};

// A connection whose other end writes back whatever one read brought.
template <class End>
class StreamEcho {
 public:
  explicit StreamEcho(std::pair<int, int> ends)
      : child_([ends] {
          ::close(ends.first);
          End there(ends.second, true);
          std::vector<char> bytes(256 << 10);
          for (;;) {
            const ssize_t got = there.read(bytes.data(), bytes.size());
            if (got <= 0) return;
            for (ssize_t sent = 0; sent < got;) {
              const ssize_t now = there.write(bytes.data() + sent, static_cast<size_t>(got - sent));
              if (now <= 0) return;
              sent += now;
            }
          }
        }) {
    ::close(ends.second);
    here_.emplace(ends.first, false);
  }

  void stay_on(size_t core) const { child_.stay_on(core); }
  void call() {
    Frame frame{};
    if (here_->write(frame.data(), frame.size()) < 0) std::abort();
    for (size_t got = 0; got < frame.size();) got += read_some(frame.data(), frame.size() - got);
  }
  // Calls per second with `window` in flight: all that may go go in one write, all that is there comes in one
  // read.
  double calls_per_second(size_t window, std::chrono::duration<double> span) {
    std::vector<char> bytes(window * kFrameBytes);
    size_t in_flight = 0, partial = 0;
    uint64_t done = 0;
    const auto begin = std::chrono::steady_clock::now();
    while (seconds_since(begin) < span.count()) {
      if (in_flight < window && here_->write(bytes.data(), (window - in_flight) * kFrameBytes) < 0) std::abort();
      in_flight = window;
      partial += read_some(bytes.data(), bytes.size());
      done += partial / kFrameBytes;
      in_flight -= partial / kFrameBytes;
      partial %= kFrameBytes;
    }
    const double rate = static_cast<double>(done) / seconds_since(begin);
    for (size_t left = in_flight * kFrameBytes - partial; left != 0;)
      left -= read_some(bytes.data(), std::min(left, bytes.size()));
    return rate;
  }

 private:
  size_t read_some(char* to, size_t room) {
    const ssize_t got = here_->read(to, room);
    if (got <= 0) std::abort();
    return static_cast<size_t>(got);
  }
  Child child_;
  std::optional<End> here_;
};

using SocketEcho = StreamEcho<PlainEnd>;

}  // namespace rayo::bench
