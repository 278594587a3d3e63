#include "runtime/worker/raylet_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "runtime/base/text.h"
#include "runtime/rpc/frame.h"

namespace rayo::worker {

namespace {

constexpr size_t kMaxFds = 16;

base::Status closed() {
  return base::failed(absl::StatusCode::kUnavailable, "the raylet closed the connection", "`rayo status` shows whether it runs");
}

base::Status wait_readable(int socket, base::TimePoint deadline) {
  pollfd entry{socket, POLLIN, 0};
  while (true) {
    int span = -1;
    if (deadline != base::kForever) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - base::system_clock().now()).count();
      if (left <= 0) return base::failed(absl::StatusCode::kDeadlineExceeded, "the raylet does not answer", "see `rayo doctor`");
      span = static_cast<int>(std::min<int64_t>(left, 1 << 30));
    }
    const int ready = ::poll(&entry, 1, span);
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return base::failed_errno(errno, "waiting for the raylet");
  }
}

// Reads exactly `size` bytes and whatever descriptors come with them.
base::Status read_exactly(int socket, void* to, size_t size, std::vector<base::Fd>& fds, base::TimePoint deadline) {
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

}  // namespace

base::StatusOr<base::Fd> connect_raylet(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return base::failed(absl::StatusCode::kInvalidArgument, base::cat("the path of the raylet's socket is too long: ", path),
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
  return socket;
}

base::Status send_frame(int socket, uint64_t call_id, const proto::ToRaylet& message, std::span<const int> fds) {
  rpc::FrameHeader header;
  header.call_id = call_id;
  header.sequence = fds.size();
  header.length = static_cast<uint32_t>(message.ByteSizeLong());
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  message.AppendToString(&bytes);
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxFds * sizeof(int))> control{};
  size_t sent = 0;
  while (sent < bytes.size()) {
    iovec part{bytes.data() + sent, bytes.size() - sent};
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

base::StatusOr<ReceivedFrame> receive_frame(int socket, base::TimePoint deadline) {
  ReceivedFrame frame;
  rpc::FrameHeader header;
  RAYO_RETURN_IF_ERROR(read_exactly(socket, &header, sizeof header, frame.fds, deadline));
  if (!rpc::check_header(header))
    return base::failed(absl::StatusCode::kUnavailable, "what answers on the raylet's socket is not Rayo");
  std::string body(header.length, '\0');
  RAYO_RETURN_IF_ERROR(read_exactly(socket, body.data(), body.size(), frame.fds, deadline));
  if (!frame.message.ParseFromString(body))
    return base::failed(absl::StatusCode::kUnavailable, "the raylet's answer cannot be read", "use programs of one version");
  frame.call_id = header.call_id;
  return frame;
}

}  // namespace rayo::worker
