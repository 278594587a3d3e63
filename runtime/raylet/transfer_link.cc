#include "runtime/raylet/transfer_link.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "runtime/rpc/dial.h"

namespace rayo::raylet {
namespace {
constexpr size_t kTlsPiece = 256 << 10;  // the pump decrypts at most what it is fed; sends of this size reach 1 GB/s
}

TransferLink::TransferLink(base::Fd fd, std::optional<rpc::TlsPump> tls, base::Duration stall)
    : fd_(std::move(fd)), tls_(std::move(tls)) {
  int flags = fcntl(fd_.get(), F_GETFL);
  fcntl(fd_.get(), F_SETFL, flags & ~O_NONBLOCK);
  auto whole = std::chrono::duration_cast<std::chrono::seconds>(stall);
  timeval limit{whole.count(), std::chrono::duration_cast<std::chrono::microseconds>(stall - whole).count()};
  setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

base::Status TransferLink::shake_hands(base::TimePoint deadline) {
  while (tls_ && !tls_->handshake_done()) {
    RAYO_ASSIGN_OR_RETURN(bool readable, rpc::wait_fd(fd_.get(), POLLIN, deadline));
    if (!readable)
      return base::failed(absl::StatusCode::kDeadlineExceeded, "the other node did not end its handshake in time");
    RAYO_RETURN_IF_ERROR(feed_tls());
  }
  return base::Status();
}

base::Status TransferLink::write(std::span<const std::byte> bytes) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!tls_) return send_all(text);
  while (!text.empty()) {
    std::string_view piece = text.substr(0, kTlsPiece);
    RAYO_RETURN_IF_ERROR(tls_->write(piece));
    RAYO_RETURN_IF_ERROR(flush_tls());
    text.remove_prefix(piece.size());
  }
  // Before the handshake is done the pump only queues: it is driven until what was written is on its way.
  while (!tls_->handshake_done()) RAYO_RETURN_IF_ERROR(feed_tls());
  return base::Status();
}

base::Status TransferLink::read_exact(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    RAYO_ASSIGN_OR_RETURN(size_t got, read_some(bytes));
    bytes = bytes.subspan(got);
  }
  return base::Status();
}

base::StatusOr<size_t> TransferLink::read_some(std::span<std::byte> bytes) {
  return tls_ ? receive_tls(bytes) : receive(bytes);
}

base::Status TransferLink::send_all(std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t sent = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return base::failed_errno(errno == EAGAIN ? ETIMEDOUT : errno, "sending an object to another node");
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return base::Status();
}

base::StatusOr<size_t> TransferLink::receive(std::span<std::byte> bytes) {
  for (;;) {
    ssize_t got = recv(fd_.get(), bytes.data(), bytes.size(), 0);
    if (got > 0) return static_cast<size_t>(got);
    if (got == 0)
      return base::failed(absl::StatusCode::kUnavailable,
                          "the other node closed the connection in the middle of an object");
    if (errno != EINTR)
      return base::failed_errno(errno == EAGAIN ? ETIMEDOUT : errno, "receiving an object from another node");
  }
}

base::StatusOr<size_t> TransferLink::receive_tls(std::span<std::byte> bytes) {
  while (tls_->plaintext().empty()) RAYO_RETURN_IF_ERROR(feed_tls());
  std::string_view plain = tls_->plaintext();
  size_t size = std::min(plain.size(), bytes.size());
  std::memcpy(bytes.data(), plain.data(), size);
  tls_->consume(size);
  return size;
}

base::Status TransferLink::feed_tls() {
  std::array<std::byte, 64 << 10> incoming;
  RAYO_ASSIGN_OR_RETURN(size_t got, receive(incoming));
  RAYO_RETURN_IF_ERROR(tls_->feed({reinterpret_cast<const char*>(incoming.data()), got}));
  return flush_tls();
}

base::Status TransferLink::flush_tls() {
  while (!tls_->pending_ciphertext().empty()) {
    std::string_view pending = tls_->pending_ciphertext();
    RAYO_RETURN_IF_ERROR(send_all(pending));
    tls_->sent(pending.size());
  }
  return base::Status();
}

}  // namespace rayo::raylet
