// Stream sockets in fibers: unix sockets that carry frames and descriptors, and plain TCP.
//
//   RAYO_ASSIGN_OR_RETURN(auto listener, UnixListener::open(loop, files.raylet_socket()));
//   while (true) {
//     RAYO_ASSIGN_OR_RETURN(auto stream, listener->accept());
//     group.spawn("worker", [stream = std::move(stream)] { serve(*stream); });
//   }
//
// A Stream belongs to its loop's thread. One fiber reads at a time; several fibers may write: each message
// goes out whole, in the order of the calls. Errors: kDeadlineExceeded; kCancelled (the fiber); kUnavailable:
// the peer closed or broke, or close() was called.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <sys/types.h>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/loop/loop.h"
#include "runtime/base/session.h"
#include "runtime/base/status.h"

namespace rayo::base {

// Who is at the other end of a unix socket, fixed when it connected (SO_PEERCRED).
struct PeerCredentials {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
};

StatusOr<PeerCredentials> peer_credentials(int fd);

class Stream {
 public:
  // Takes a connected stream socket (unix or TCP), made non-blocking.
  Stream(Loop& loop, Fd fd);
  ~Stream();  // closes; what is still queued is lost: drain() first where it matters
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // At least one byte; 0: the peer has closed its side.
  StatusOr<size_t> read_some(std::span<std::byte> out, TimePoint deadline = kForever);
  // What the next read would give, without taking it; not on a socket that brings descriptors.
  StatusOr<size_t> peek(std::span<std::byte> out, TimePoint deadline = kForever);
  // All of it; kUnavailable "closed" where the peer closes first.
  Status read_exact(std::span<std::byte> out, TimePoint deadline = kForever);
  // Descriptors that came with what was read so far, in their order, all close-on-exec. A descriptor sent
  // with a message is here once that message's first byte was read. InvalidArgument where fewer than `count`
  // came.
  StatusOr<std::vector<Fd>> take_descriptors(size_t count);
  size_t descriptors() const;

  // One whole message, with up to 16 descriptors on its first byte; returns when the kernel has it all. A
  // deadline that passes in the middle of a message breaks the stream.
  Status write(std::string message, std::vector<Fd> descriptors = {}, TimePoint deadline = kForever);
  // Never waits: queues the message. False: the stream is closed or broken.
  bool send(std::string message, std::vector<Fd> descriptors = {});
  // Bytes queued and not yet with the kernel: who uses send() bounds it.
  size_t backlog() const;
  // Waits until the queue is empty.
  Status drain(TimePoint deadline = kForever);

  // Any waiting fiber gets kUnavailable; idempotent.
  void close();
  bool closed() const;
  // Of a unix socket.
  StatusOr<PeerCredentials> peer() const;
  int fd() const;
  // Gives the socket away; only while nothing reads, writes or is queued.
  Fd release();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// A listening socket. Survives a lack of descriptors: it keeps a spare one, gives it up to reset who knocks,
// and accepts again as soon as there is room.
class Acceptor {
 public:
  Acceptor(Loop& loop, Fd listening);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;
  // The next connection: non-blocking, close-on-exec.
  StatusOr<Fd> accept(TimePoint deadline = kForever);
  void close();
  int fd() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// A unix socket at `path` in a directory of ours (0700, made where missing). An old socket file is replaced.
// Paths over 107 bytes go by /proc/self/fd. Who connects under another uid (root aside) is turned away.
class UnixListener {
 public:
  // AlreadyExists: somebody answers at that path.
  static StatusOr<std::unique_ptr<UnixListener>> open(Loop& loop, const Path& path);
  ~UnixListener();  // removes the file
  // A connection of our own uid. Binds again where the file has been removed from under us.
  StatusOr<Fd> accept_fd(TimePoint deadline = kForever);
  StatusOr<std::unique_ptr<Stream>> accept(TimePoint deadline = kForever);
  void close();

 private:
  UnixListener(Loop& loop, Path path, Fd fd);
  void bind_again_where_removed();
  uint64_t path_inode() const;
  Loop& loop_;
  Path path_;
  uint64_t inode_ = 0;  // of the socket file
  std::unique_ptr<Acceptor> acceptor_;
};

// A connected unix socket, any thread, without a loop. kUnavailable: nobody listens there.
StatusOr<Fd> connect_unix(const Path& path);
// In a fiber: waits until the descriptor is readable (or broken) / writable; kDeadlineExceeded, kCancelled.
// The descriptor stays the caller's and is not watched after the return.
Status wait_readable(Loop& loop, int fd, TimePoint deadline);
Status wait_writable(Loop& loop, int fd, TimePoint deadline);

// SO_LINGER 0 and close: the peer sees a reset at once.
void reset_connection(Fd fd);

}  // namespace rayo::base
