#include "runtime/rpc/dial.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include "runtime/base/text.h"

namespace rayo::rpc {
namespace {

base::Status unreachable(std::string_view address, std::string_view cause, std::string_view next_step) {
  return base::failed(absl::StatusCode::kUnavailable, base::cat("cannot connect to ", address, ": ", cause), next_step);
}

base::Status timed_out(std::string_view address) { return connect_error(ETIMEDOUT, std::string(address)); }

base::Status set_blocking(int fd) {
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0)
    return base::failed_errno(errno, "cannot set up a socket");
  return {};
}

base::StatusOr<base::Fd> dial_one(const SocketAddress& address, base::TimePoint deadline) {
  RAYO_ASSIGN_OR_RETURN(base::Fd fd, start_connect(address));
  RAYO_ASSIGN_OR_RETURN(bool ready, wait_fd(fd.get(), POLLOUT, deadline));
  if (!ready) return timed_out(address.text());
  RAYO_RETURN_IF_ERROR(finish_connect(fd.get(), address));
  RAYO_RETURN_IF_ERROR(set_blocking(fd.get()));
  return fd;
}

}  // namespace

std::string SocketAddress::host() const {
  char text[NI_MAXHOST];
  if (getnameinfo(get(), length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) return "?";
  return text;
}

int SocketAddress::port() const {
  if (storage.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
  if (storage.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  return 0;
}

std::string SocketAddress::text() const { return HostPort{host(), port()}.text(); }

base::StatusOr<std::vector<SocketAddress>> resolve(const HostPort& address) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  int error = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &list);
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
  std::vector<SocketAddress> found;
  for (const addrinfo* entry = error ? nullptr : list; entry; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    SocketAddress one;
    std::memcpy(&one.storage, entry->ai_addr, entry->ai_addrlen);
    one.length = entry->ai_addrlen;
    found.push_back(one);
  }
  if (!found.empty()) return found;
  return base::failed(
      absl::StatusCode::kUnavailable,
      base::cat("cannot connect to ", address.text(), ": the name '", address.host, "' does not resolve (",
                std::string_view(error ? gai_strerror(error) : "no TCP address"), ")"),
      "check the name, or give the address in numbers");
}

base::StatusOr<base::Fd> start_connect(const SocketAddress& address) {
  base::Fd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return connect_error(errno, address.text());
  int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (connect(fd.get(), address.get(), address.length) == 0 || errno == EINPROGRESS) return fd;
  return connect_error(errno, address.text());
}

base::Status finish_connect(int fd, const SocketAddress& address) {
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0) error = errno;
  return error ? connect_error(error, address.text()) : base::Status();
}

base::Status connect_error(int error, const std::string& address) {
  switch (error) {
    case ECONNREFUSED:
      return unreachable(address, "connection refused",
                         "is Rayo running there, with this port? `rayo status` on that machine tells");
    case ETIMEDOUT:
      return unreachable(address, "timed out: nothing answered",
                         "is the machine on, and does a firewall let this port through?");
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
      return unreachable(address, "no route to it from this machine", "check the address and this machine's network");
    default:
      break;
  }
  char buffer[128];
  return unreachable(address, std::string_view(strerror_r(error, buffer, sizeof buffer)), {});
}

base::StatusOr<bool> wait_fd(int fd, short events, base::TimePoint deadline) {
  pollfd entry{fd, events, 0};
  for (;;) {
    base::Duration left = std::max(base::Duration::zero(), deadline - base::system_clock().now());
    left = std::min<base::Duration>(left, std::chrono::hours(24));
    timespec span{left.count() / 1'000'000'000, left.count() % 1'000'000'000};
    int ready = ppoll(&entry, 1, &span, nullptr);
    if (ready > 0) return true;
    if (ready == 0 && deadline <= base::system_clock().now()) return false;
    if (ready < 0 && errno != EINTR) return base::failed_errno(errno, "cannot wait for a socket");
  }
}

base::StatusOr<base::Fd> dial(const HostPort& address, base::TimePoint deadline) {
  RAYO_ASSIGN_OR_RETURN(std::vector<SocketAddress> found, resolve(address));
  base::Status last;
  for (size_t i = 0; i < found.size(); ++i) {
    base::TimePoint now = base::system_clock().now();
    if (now >= deadline) return last.ok() ? timed_out(found[i].text()) : last;
    // An address that swallows everything must leave time for the next one.
    auto fd = dial_one(found[i], now + (deadline - now) / static_cast<int64_t>(found.size() - i));
    if (fd.ok()) return fd;
    last = fd.status();
  }
  return last;
}

base::StatusOr<base::Fd> dial_any(const std::vector<HostPort>& addresses, base::TimePoint deadline) {
  std::vector<std::string> texts;
  base::Status last = base::failed(absl::StatusCode::kInvalidArgument, "no address to connect to was given");
  for (size_t i = 0; i < addresses.size(); ++i) {
    base::TimePoint now = base::system_clock().now();
    auto fd = dial(addresses[i],
                   now + std::max(base::Duration::zero(), deadline - now) / static_cast<int64_t>(addresses.size() - i));
    if (fd.ok()) return fd;
    last = fd.status();
    texts.emplace_back(base::message(last));
  }
  if (texts.size() < 2) return last;
  return base::failed(last.code(), base::join(texts, "; "), base::next_step(last));
}

base::StatusOr<SocketAddress> local_address(int fd) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length) < 0)
    return base::failed_errno(errno, "cannot read a socket's own address");
  return address;
}

base::StatusOr<SocketAddress> peer_address(int fd) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length) < 0)
    return base::failed_errno(errno, "cannot read the address of a socket's peer");
  return address;
}

}  // namespace rayo::rpc
