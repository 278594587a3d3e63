// Connecting by TCP: look a name up, try each of its addresses until one answers. Every socket made here is
// close-on-exec with TCP_NODELAY.
//
//   auto fd = dial({"head.lan", 6379}, deadline_after(clock.now(), 5s));      // blocks this thread
//
// For an event loop: resolve() on a thread (it blocks on DNS), then start_connect() and, once writable,
// finish_connect(). Errors are kUnavailable and distinct in their text ("does not resolve", "connection
// refused", "timed out", "no route"), each with the address and port and what to do next.
#pragma once

#include <string>
#include <sys/socket.h>
#include <vector>

#include "runtime/base/address.h"
#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/status.h"

namespace rayo::rpc {

using base::HostPort;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  std::string host() const;  // numeric
  int port() const;
  std::string text() const;  // "10.0.0.5:6379", "[::1]:6379"
};

// Never empty. A numeric host asks nobody.
base::StatusOr<std::vector<SocketAddress>> resolve(const HostPort& address);

// Tries the addresses in turn, each with its share of the time left. The socket returned blocks.
base::StatusOr<base::Fd> dial(const HostPort& address, base::TimePoint deadline);
// The first of a list that answers; the error names every address tried.
base::StatusOr<base::Fd> dial_any(const std::vector<HostPort>& addresses, base::TimePoint deadline);

// A non-blocking socket on its way; ready when it turns writable.
base::StatusOr<base::Fd> start_connect(const SocketAddress& address);
// How it went; `fd` stays non-blocking.
base::Status finish_connect(int fd, const SocketAddress& address);

// The text and next step for errno of a connect to `address`.
base::Status connect_error(int error, const std::string& address);

base::StatusOr<SocketAddress> local_address(int fd);
base::StatusOr<SocketAddress> peer_address(int fd);

// ppoll on one descriptor; false at the deadline.
base::StatusOr<bool> wait_fd(int fd, short events, base::TimePoint deadline);

}  // namespace rayo::rpc
