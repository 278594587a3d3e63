#include "runtime/rpc/tls_stream.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>

#include "runtime/rpc/dial.h"

namespace rayo::rpc {
namespace {

base::Status late() { return base::failed(absl::StatusCode::kDeadlineExceeded, "the peer did not answer in time"); }
base::Status ended() { return base::failed(absl::StatusCode::kAborted, "the peer closed the connection"); }

bool cut(int error) { return error == ECONNRESET || error == EPIPE; }

// What is there, at most `size`; waits for the first byte. MSG_DONTWAIT, so that the socket may be of either
// kind.
base::StatusOr<size_t> receive_some(int fd, char* out, size_t size, base::TimePoint deadline) {
  for (;;) {
    RAYO_ASSIGN_OR_RETURN(bool ready, wait_fd(fd, POLLIN, deadline));
    if (!ready) return late();
    ssize_t got = recv(fd, out, size, MSG_DONTWAIT);
    if (got > 0) return static_cast<size_t>(got);
    if (got == 0 || cut(errno)) return ended();
    if (errno != EAGAIN && errno != EINTR) return base::failed_errno(errno, "cannot receive");
  }
}

base::StatusOr<size_t> send_some(int fd, std::string_view bytes, base::TimePoint deadline) {
  for (;;) {
    RAYO_ASSIGN_OR_RETURN(bool ready, wait_fd(fd, POLLOUT, deadline));
    if (!ready) return late();
    ssize_t gone = send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (gone >= 0) return static_cast<size_t>(gone);
    if (cut(errno)) return ended();
    if (errno != EAGAIN && errno != EINTR) return base::failed_errno(errno, "cannot send");
  }
}

}  // namespace

base::Status send_all(int fd, std::string_view bytes, base::TimePoint deadline) {
  while (!bytes.empty()) {
    RAYO_ASSIGN_OR_RETURN(size_t gone, send_some(fd, bytes, deadline));
    bytes.remove_prefix(gone);
  }
  return {};
}

base::Status receive_all(int fd, char* out, size_t size, base::TimePoint deadline) {
  while (size > 0) {
    RAYO_ASSIGN_OR_RETURN(size_t got, receive_some(fd, out, size, deadline));
    out += got;
    size -= got;
  }
  return {};
}

TlsStream::TlsStream(base::Fd socket, TlsPump pump, base::TimePoint deadline)
    : socket_(std::move(socket)), pump_(std::move(pump)), deadline_(deadline) {}

base::Status TlsStream::flush() {
  base::Status status = send_all(socket_.get(), pump_.pending_ciphertext(), deadline_);
  pump_.sent(pump_.pending_ciphertext().size());
  return status;
}

base::Status TlsStream::receive() {
  std::array<char, 16 << 10> bytes;
  RAYO_ASSIGN_OR_RETURN(size_t got, receive_some(socket_.get(), bytes.data(), bytes.size(), deadline_));
  base::Status status = pump_.feed({bytes.data(), got});
  if (status.ok() && pump_.peer_closed() && pump_.plaintext().empty()) return ended();
  return status;
}

base::Status TlsStream::handshake() {
  for (;;) {
    RAYO_RETURN_IF_ERROR(flush());
    if (pump_.handshake_done()) return {};
    RAYO_RETURN_IF_ERROR(receive());  // no alert is sent: a stranger is told nothing
  }
}

base::Status TlsStream::write(std::string_view bytes) {
  RAYO_RETURN_IF_ERROR(pump_.write(bytes));
  return pump_.handshake_done() ? flush() : handshake();
}

base::StatusOr<std::string> TlsStream::read(size_t size) {
  while (pump_.plaintext().size() < size) RAYO_RETURN_IF_ERROR(receive());
  std::string bytes(pump_.plaintext().substr(0, size));
  pump_.consume(size);
  return bytes;
}

base::Status TlsStream::write_message(std::string_view message) {
  auto size = static_cast<uint32_t>(message.size());
  const char prefix[4] = {static_cast<char>(size), static_cast<char>(size >> 8), static_cast<char>(size >> 16),
                          static_cast<char>(size >> 24)};
  RAYO_RETURN_IF_ERROR(pump_.write({prefix, sizeof prefix}));
  return write(message);
}

base::StatusOr<std::string> TlsStream::read_message(size_t limit) {
  uint32_t size = 0;
  RAYO_ASSIGN_OR_RETURN(const std::string prefix, read(sizeof size));
  for (size_t i = 0; i < sizeof size; ++i) size |= static_cast<uint32_t>(static_cast<uint8_t>(prefix[i])) << (8 * i);
  if (size > limit)
    return base::failed(absl::StatusCode::kInvalidArgument, "the peer announced a message that is too long");
  return read(size);
}

void TlsStream::close() {
  pump_.close();
  (void)flush();
  socket_.reset();
}

}  // namespace rayo::rpc
