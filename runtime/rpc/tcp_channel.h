// Frames over a connected stream socket: TCP between processes of two nodes, plain or TLS, and the unix
// socket between a process and its raylet, where descriptors travel with a frame. It never blocks and starts
// no thread: its owner (the progress engine, or a daemon's loop) tells it when the socket is readable or
// writable.
//
//   SocketChannel channel(std::move(socket), nullptr);          // null: plain
//   channel.send(header, parts, fds);                // queues
//   channel.flush();                                 // writes what the socket takes, all frames together
//   if (channel.wants_write()) ...                   // flush() again when it is writable
//   Status end = channel.on_readable([&](const FrameHeader& header, Bytes body, std::vector<base::Fd>& fds) { ... });
//
// A frame with descriptors starts a write of its own, and its header tells how many there are
// (header.sequence of a kControl frame), so the receiver gives each frame exactly its own. Frames of up to 16
// MiB pass whole; kPiece is for rings. Any error, a broken header included, ends the channel: the Status says
// why; one thread at a time uses it.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/base/fd.h"
#include "runtime/base/status.h"
#include "runtime/rpc/flat_buffer.h"
#include "runtime/rpc/frame.h"

namespace rayo::rpc {

class TlsPump;  // runtime/rpc/tls_pump.h

// The body and the descriptors are valid during the call; take (move) the descriptors that are meant to stay.
using FrameReader = std::function<void(const FrameHeader& header, Bytes body, std::vector<base::Fd>& fds)>;

class SocketChannel {
 public:
  // Sets the socket non-blocking, close-on-exec and, where it is TCP, without Nagle's delay.
  SocketChannel(base::Fd socket, std::unique_ptr<TlsPump> tls);
  ~SocketChannel();

  int fd() const { return socket_.get(); }

  // Queues a frame; header.length is set here. `fds` are duplicated; only on a unix socket.
  void send(FrameHeader header, std::span<const Bytes> parts, std::span<const int> fds = {});
  // Writes what the socket takes now. An error ends the channel.
  base::Status flush();
  // Bytes that wait for the socket.
  size_t backlog() const;
  bool wants_write() const { return blocked_; }

  // Reads what is there, at most `budget` bytes so that others get their turn, and gives each whole frame to
  // `reader`. OK: more may come. Unavailable: the other side closed.
  base::Status on_readable(const FrameReader& reader, size_t budget = 1u << 20);

 private:
  struct Departure {  // descriptors that leave with the byte at `at` of the stream
    uint64_t at = 0;
    std::vector<base::Fd> fds;
  };
  base::Status flush_plain();
  base::Status flush_tls();
  // Bytes that the socket took or gave; 0: it would block.
  base::StatusOr<size_t> write_some(Bytes bytes, const Departure* departure);
  base::StatusOr<size_t> read_plain();
  base::StatusOr<size_t> read_tls();
  base::StatusOr<size_t> receive(std::byte* to, size_t room);
  base::Status take_descriptors(void* message);
  base::Status deliver(const FrameReader& reader);
  size_t room_wanted() const;

  base::Fd socket_;
  std::unique_ptr<TlsPump> tls_;
  FlatBuffer out_;
  FlatBuffer in_;
  std::deque<Departure> leaving_;
  std::deque<base::Fd> arrived_;
  uint64_t sent_ = 0;    // bytes of the stream that the socket took
  uint64_t queued_ = 0;  // bytes of the stream ever queued
  bool unix_ = false;
  bool blocked_ = false;
};

}  // namespace rayo::rpc
