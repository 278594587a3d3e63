#include "runtime/rpc/tcp_channel.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "runtime/base/text.h"
#include "runtime/rpc/tls_pump.h"

namespace rayo::rpc {
namespace {

constexpr size_t kReadBytes = 64u << 10;         // of one read; more for the rest of a long frame
constexpr size_t kTlsBytes = 256u << 10;         // in one piece through TLS
constexpr size_t kMaxDescriptors = 253;          // of one message (the kernel's limit)
constexpr size_t kMaxWaitingDescriptors = 1024;  // arrived and not asked for by a frame

std::string_view as_text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

base::Status closed_by_peer() {
  return base::failed(absl::StatusCode::kUnavailable, "the other side closed the connection");
}

}  // namespace

SocketChannel::SocketChannel(base::Fd socket, std::unique_ptr<TlsPump> tls)
    : socket_(std::move(socket)), tls_(std::move(tls)) {
  const int fd = socket_.get();
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  int domain = 0;
  socklen_t size = sizeof domain;
  ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
  unix_ = domain == AF_UNIX;
  const int one = 1;
  if (!unix_) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

SocketChannel::~SocketChannel() = default;

size_t SocketChannel::backlog() const { return out_.size() + (tls_ ? tls_->pending_ciphertext().size() : 0); }

void SocketChannel::send(FrameHeader header, std::span<const Bytes> parts, std::span<const int> fds) {
  size_t length = 0;
  for (Bytes part : parts) length += part.size();
  header.length = static_cast<uint32_t>(length);
  if (header.kind == FrameKind::kControl) header.sequence = fds.size();
  if (!fds.empty()) {
    Departure& departure = leaving_.emplace_back();
    departure.at = queued_;
    for (int fd : fds) departure.fds.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  }
  out_.append(&header, sizeof header);
  for (Bytes part : parts) out_.append(part.data(), part.size());
  queued_ += sizeof header + length;
}

base::StatusOr<size_t> SocketChannel::write_some(Bytes bytes, const Departure* departure) {
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxDescriptors * sizeof(int))> control;
  if (departure != nullptr) {
    const size_t payload = departure->fds.size() * sizeof(int);
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(payload);
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(payload);
    auto* slots = reinterpret_cast<int*>(CMSG_DATA(head));
    for (const base::Fd& fd : departure->fds) *slots++ = fd.get();
  }
  for (;;) {
    const ssize_t written = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written >= 0) return static_cast<size_t>(written);
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return size_t{0};
    return base::failed_errno(errno, "cannot write to the connection");
  }
}

base::Status SocketChannel::flush() {
  blocked_ = false;
  return tls_ ? flush_tls() : flush_plain();
}

base::Status SocketChannel::flush_plain() {
  while (!out_.empty()) {
    Bytes bytes = out_.bytes();
    const Departure* departure = nullptr;
    if (!leaving_.empty()) {
      auto next = leaving_.begin();
      if (next->at == sent_) departure = &*next++;
      if (next != leaving_.end()) bytes = bytes.first(std::min<size_t>(bytes.size(), next->at - sent_));
    }
    RAYO_ASSIGN_OR_RETURN(const size_t written, write_some(bytes, departure));
    blocked_ = written == 0;
    if (blocked_) break;
    if (departure != nullptr) leaving_.pop_front();
    sent_ += written;
    out_.consume(written);
  }
  return {};
}

base::Status SocketChannel::flush_tls() {
  for (;;) {
    // One piece at a time, so that at most that much waits encrypted.
    if (tls_->pending_ciphertext().empty() && !out_.empty()) {
      const Bytes piece = out_.bytes().first(std::min(out_.size(), kTlsBytes));
      RAYO_RETURN_IF_ERROR(tls_->write(as_text(piece)));
      out_.consume(piece.size());
    }
    const std::string_view pending = tls_->pending_ciphertext();
    if (pending.empty()) return {};
    RAYO_ASSIGN_OR_RETURN(const size_t written, write_some(std::as_bytes(std::span(pending)), nullptr));
    blocked_ = written == 0;
    if (blocked_) return {};
    tls_->sent(written);
  }
}

base::Status SocketChannel::take_descriptors(void* received) {
  auto& message = *static_cast<msghdr*>(received);
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    const auto* slots = reinterpret_cast<const int*>(CMSG_DATA(head));
    for (size_t i = 0; i < count; ++i) arrived_.emplace_back(slots[i]);
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0 || arrived_.size() > kMaxWaitingDescriptors)
    return base::failed(absl::StatusCode::kResourceExhausted, "more descriptors came than this process can hold");
  return {};
}

base::StatusOr<size_t> SocketChannel::receive(std::byte* to, size_t room) {
  iovec piece{to, room};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxDescriptors * sizeof(int))> control;
  if (unix_) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
  for (;;) {
    const ssize_t got = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return size_t{0};
    if (got < 0) return base::failed_errno(errno, "cannot read from the connection");
    if (unix_ && message.msg_controllen != 0) RAYO_RETURN_IF_ERROR(take_descriptors(&message));
    if (got == 0) return closed_by_peer();
    return static_cast<size_t>(got);
  }
}

// The rest of a long frame in one read, and else a plain piece.
size_t SocketChannel::room_wanted() const {
  if (in_.size() < sizeof(FrameHeader)) return kReadBytes;
  FrameHeader header;
  std::memcpy(&header, in_.bytes().data(), sizeof header);
  const size_t whole = sizeof header + std::min(header.length, kMaxFrameBody);
  return std::max(kReadBytes, whole - std::min(whole, in_.size()));
}

base::StatusOr<size_t> SocketChannel::read_plain() {
  const size_t room = room_wanted();
  RAYO_ASSIGN_OR_RETURN(const size_t got, receive(in_.prepare(room), room));
  in_.commit(got);
  return got;
}

base::StatusOr<size_t> SocketChannel::read_tls() {
  std::array<std::byte, kReadBytes> cipher;
  auto got = receive(cipher.data(), cipher.size());
  if (!got.ok()) return tls_->peer_closed() ? base::StatusOr<size_t>(closed_by_peer()) : got;
  if (*got == 0) return size_t{0};
  base::Status fed = tls_->feed(as_text(Bytes(cipher.data(), *got)));
  if (!fed.ok()) {
    (void)flush_tls();  // the alert that tells the peer why
    return fed;
  }
  const std::string_view plain = tls_->plaintext();
  in_.append(plain.data(), plain.size());
  tls_->consume(plain.size());
  RAYO_RETURN_IF_ERROR(flush());  // the handshake's answers, and what waited for its end
  return *got;
}

base::Status SocketChannel::on_readable(const FrameReader& reader, size_t budget) {
  for (size_t total = 0; total < budget;) {
    const size_t held = arrived_.size();
    auto got = tls_ ? read_tls() : read_plain();
    if (!got.ok()) {
      base::Status last = deliver(reader);
      return last.ok() ? got.status() : last;
    }
    if (*got == 0) return {};
    RAYO_RETURN_IF_ERROR(deliver(reader));
    // A read that ended before its room was full took everything, except where descriptors cut it.
    if (!tls_ && *got < kReadBytes && arrived_.size() == held && !unix_) return {};
    total += *got;
  }
  return {};
}

base::Status SocketChannel::deliver(const FrameReader& reader) {
  std::vector<base::Fd> fds;
  while (in_.size() >= sizeof(FrameHeader)) {
    FrameHeader header;
    std::memcpy(&header, in_.bytes().data(), sizeof header);
    if (!check_header(header))
      return base::failed(absl::StatusCode::kDataLoss, "the connection brought something that is no frame");
    if (in_.size() < sizeof header + header.length) break;
    const uint64_t descriptors = header.kind == FrameKind::kControl ? header.sequence : 0;
    if (descriptors > arrived_.size())
      return base::failed(absl::StatusCode::kDataLoss, "a frame's descriptors did not come with it");
    fds.clear();
    for (uint64_t i = 0; i < descriptors; ++i) {
      fds.push_back(std::move(arrived_.front()));
      arrived_.pop_front();
    }
    reader(header, in_.bytes().subspan(sizeof header, header.length), fds);
    in_.consume(sizeof header + header.length);
  }
  return {};
}

}  // namespace rayo::rpc
