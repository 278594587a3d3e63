#include "runtime/worker/raylet_socket.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "runtime/base/address.h"
#include "runtime/base/text.h"
#include "runtime/rpc/data_header.h"
#include "runtime/rpc/dial.h"
#include "runtime/rpc/frame.h"
#include "runtime/rpc/keep_alive.h"

namespace rayo::worker {

namespace {

constexpr size_t kMaxFds = 16;

base::Status closed() {
  return base::failed(absl::StatusCode::kUnavailable, "the raylet closed the connection",
                      "`rayo status` shows whether it runs");
}

base::Status wait_readable(int socket, base::TimePoint deadline) {
  pollfd entry{socket, POLLIN, 0};
  while (true) {
    int span = -1;
    if (deadline != base::kForever) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - base::system_clock().now()).count();
      if (left <= 0)
        return base::failed(absl::StatusCode::kDeadlineExceeded, "the raylet does not answer", "see `rayo doctor`");
      span = static_cast<int>(std::min<int64_t>(left, 1 << 30));
    }
    const int ready = ::poll(&entry, 1, span);
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return base::failed_errno(errno, "waiting for the raylet");
  }
}

// Reads exactly `size` bytes and whatever descriptors come with them.
base::Status read_plain(int socket, void* to, size_t size, std::vector<base::Fd>& fds, base::TimePoint deadline) {
  auto* at = static_cast<char*>(to);
  while (size > 0) {
    RAYO_RETURN_IF_ERROR(wait_readable(socket, deadline));
    iovec part{at, size};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxFds * sizeof(int))> control;
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return closed();
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
      for (size_t i = 0; i < (header->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
        int fd;
        std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
        fds.emplace_back(fd);
      }
    }
    at += got;
    size -= static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

base::Status send_plain(int socket, std::string_view bytes, std::span<const int> fds) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxFds * sizeof(int))> control{};
  size_t sent = 0;
  while (sent < bytes.size()) {
    iovec part{const_cast<char*>(bytes.data()) + sent, bytes.size() - sent};
    msghdr out{};
    out.msg_iov = &part;
    out.msg_iovlen = 1;
    if (sent == 0 && !fds.empty()) {
      out.msg_control = control.data();
      out.msg_controllen = CMSG_SPACE(fds.size_bytes());
      cmsghdr* rights = CMSG_FIRSTHDR(&out);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(fds.size_bytes());
      std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
    }
    const ssize_t done = ::sendmsg(socket, &out, MSG_NOSIGNAL);
    if (done < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (done < 0) return closed();
    sent += static_cast<size_t>(done);
  }
  return absl::OkStatus();
}

}  // namespace

base::StatusOr<RayletSocket> RayletSocket::open(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return base::failed(absl::StatusCode::kInvalidArgument,
                        base::cat("the path of the raylet's socket is too long: ", path),
                        "set RAYO_RUNTIME_DIR to a shorter directory");
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  base::Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return base::failed_errno(errno, "no socket");
  while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno == EINTR) continue;
    return base::failed(absl::StatusCode::kUnavailable,
                        base::cat("cannot reach the raylet at ", path, ": ", std::strerror(errno)),
                        "`rayo status` shows whether it runs; `rayo start --head` starts a cluster");
  }
  return RayletSocket(std::move(socket));
}

base::StatusOr<RayletSocket> RayletSocket::dial(const std::string& host_port, const std::string& token,
                                                base::TimePoint deadline) {
  RAYO_ASSIGN_OR_RETURN(const base::HostPort target, base::parse_host_port(host_port));
  RAYO_ASSIGN_OR_RETURN(base::Fd fd, rpc::dial(target, deadline));  // where nobody answers, no token is missed
  if (token.empty())
    return base::failed(
        absl::StatusCode::kPermissionDenied,
        base::cat("cannot reach the cluster at ", target.text(), ": its token is not here"),
        "`rayo token` on the head's machine prints it, for RAYO_TOKEN or a file that RAYO_TOKEN_FILE names");
  RAYO_ASSIGN_OR_RETURN(const rpc::Token parsed, rpc::Token::parse(token));
  const rpc::LinkKeys keys = rpc::LinkKeys::of_data(parsed.data_secret());
  const rpc::DataHeader header = rpc::make_data_header(rpc::LinkKind::kDriver, true, {}, keys);
  rpc::break_when_silent(fd.get());
  const rpc::DataHeaderBytes bytes = rpc::encode(header);
  RAYO_RETURN_IF_ERROR(send_plain(fd.get(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, {}));
  RayletSocket socket(std::move(fd));
  socket.tls_ = std::make_unique<rpc::TlsPump>(rpc::TlsPump::client(keys.tls_key(header.nonce)));
  return socket;
}

base::Status RayletSocket::flush_tls() {
  while (!tls_->pending_ciphertext().empty()) {
    const std::string_view bytes = tls_->pending_ciphertext();
    RAYO_RETURN_IF_ERROR(send_plain(socket_.get(), bytes, {}));
    tls_->sent(bytes.size());
  }
  return absl::OkStatus();
}

base::Status RayletSocket::read_tls(void* to, size_t size, base::TimePoint deadline) {
  auto* at = static_cast<char*>(to);
  std::array<char, 16384> buffer;
  while (size > 0) {
    const std::string_view clear = tls_->plaintext();
    const size_t some = std::min(size, clear.size());
    std::memcpy(at, clear.data(), some);
    tls_->consume(some);
    at += some;
    size -= some;
    if (size == 0) break;
    RAYO_RETURN_IF_ERROR(flush_tls());
    RAYO_RETURN_IF_ERROR(wait_readable(socket_.get(), deadline));
    const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) {
      if (tls_->handshake_done()) return closed();
      return base::failed(absl::StatusCode::kPermissionDenied, "the cluster refused the connection",
                          "check the token: `rayo token` on the head's machine prints it");
    }
    RAYO_RETURN_IF_ERROR(tls_->feed({buffer.data(), static_cast<size_t>(got)}));
  }
  return absl::OkStatus();
}

base::Status RayletSocket::read(void* to, size_t size, std::vector<base::Fd>& fds, base::TimePoint deadline) {
  return tls_ ? read_tls(to, size, deadline) : read_plain(socket_.get(), to, size, fds, deadline);
}

base::Status RayletSocket::send(uint64_t call_id, const proto::ToRaylet& message, std::span<const int> fds) {
  rpc::FrameHeader header;
  header.call_id = call_id;
  header.sequence = fds.size();
  header.length = static_cast<uint32_t>(message.ByteSizeLong());
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  message.AppendToString(&bytes);
  if (!tls_) return send_plain(socket_.get(), bytes, fds);
  RAYO_RETURN_IF_ERROR(tls_->write(bytes));
  return flush_tls();
}

base::StatusOr<ReceivedFrame> RayletSocket::receive(base::TimePoint deadline) {
  ReceivedFrame frame;
  rpc::FrameHeader header;
  RAYO_RETURN_IF_ERROR(read(&header, sizeof header, frame.fds, deadline));
  if (!rpc::check_header(header))
    return base::failed(absl::StatusCode::kUnavailable, "what answers on the raylet's socket is not Rayo");
  std::string body(header.length, '\0');
  RAYO_RETURN_IF_ERROR(read(body.data(), body.size(), frame.fds, deadline));
  if (!frame.message.ParseFromString(body))
    return base::failed(absl::StatusCode::kUnavailable, "the raylet's answer cannot be read",
                        "use programs of one version");
  frame.call_id = header.call_id;
  return frame;
}

}  // namespace rayo::worker
