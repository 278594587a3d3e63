// If these fail, a user is not told why another machine cannot be reached, or a dead first address hides a
// live second one.
#include "runtime/rpc/dial.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include "runtime/base/text.h"

namespace rayo::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

base::TimePoint in(base::Duration span) { return base::deadline_after(base::system_clock().now(), span); }

// Bound to loopback; listens only when told, so that its port is free of others and refuses.
struct Port {
  explicit Port(bool listens, const char* host = "127.0.0.1") : address((*resolve({host, 1}))[0]) {
    fd = base::Fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port = 0;  // at the same place in sockaddr_in6
    if (bind(fd.get(), address.get(), address.length) == 0 && (!listens || listen(fd.get(), 1) == 0))
      address = *local_address(fd.get());
  }
  base::HostPort target() const { return {address.host(), address.port()}; }
  SocketAddress address;
  base::Fd fd;
};

TEST(Dial, ConnectsWithABlockingCloexecSocketWithoutDelay) {
  Port port(true);
  auto fd = dial(port.target(), in(seconds(5)));
  ASSERT_TRUE(fd.ok()) << base::message(fd.status());
  EXPECT_EQ(fcntl(fd->get(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(fcntl(fd->get(), F_GETFD) & FD_CLOEXEC, 0);
  int no_delay = 0;
  socklen_t size = sizeof no_delay;
  getsockopt(fd->get(), IPPROTO_TCP, TCP_NODELAY, &no_delay, &size);
  EXPECT_EQ(no_delay, 1);
  EXPECT_EQ(peer_address(fd->get())->text(), port.target().text());
}

TEST(Dial, ByNameAndBySixes) {
  Port port(true);
  EXPECT_TRUE(dial({"localhost", port.address.port()}, in(seconds(5))).ok());
  Port six(true, "::1");
  if (six.address.port() != 0) {
    EXPECT_EQ(six.address.text(), base::cat("[::1]:", six.address.port()));
    EXPECT_TRUE(dial(six.target(), in(seconds(5))).ok());
  }
}

TEST(Dial, RefusedNamesTheAddress) {
  Port port(false);
  auto fd = dial(port.target(), in(seconds(5)));
  EXPECT_EQ(fd.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(base::message(fd.status()), base::cat("cannot connect to ", port.target().text(), ": connection refused"));
}

TEST(Dial, ASilentAddressTimesOutAndIsNamed) {
  Port port(true);
  std::vector<base::Fd> fill;  // a full backlog drops SYNs as a firewall does
  for (int i = 0; i < 8; ++i) fill.push_back(*start_connect(port.address));
  auto fd = dial(port.target(), in(milliseconds(200)));
  ASSERT_FALSE(fd.ok());
  EXPECT_EQ(fd.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(base::message(fd.status()),
            base::cat("cannot connect to ", port.target().text(), ": timed out: nothing answered"));
  EXPECT_EQ(base::next_step(fd.status()), "is the machine on, and does a firewall let this port through?");
}

TEST(Dial, NoRouteIsAnErrorOfItsOwn) {
  base::Status error = connect_error(EHOSTUNREACH, "10.0.0.5:6379");
  EXPECT_EQ(base::message(error), "cannot connect to 10.0.0.5:6379: no route to it from this machine");
  EXPECT_EQ(base::message(connect_error(EMFILE, "a:1")), "cannot connect to a:1: Too many open files");
}

TEST(Dial, ADeadHeadDoesNotHideTheOther) {
  Port dead(false), alive(true);
  auto fd = dial_any({dead.target(), alive.target()}, in(seconds(5)));
  ASSERT_TRUE(fd.ok());
  EXPECT_EQ(peer_address(fd->get())->port(), alive.address.port());
}

TEST(Dial, AllDeadHeadsAreNamed) {
  Port one(false), two(false);
  auto fd = dial_any({one.target(), two.target()}, in(seconds(5)));
  EXPECT_EQ(base::message(fd.status()),
            base::cat("cannot connect to ", one.target().text(), ": connection refused; cannot connect to ",
                      two.target().text(), ": connection refused"));
  EXPECT_EQ(dial_any({}, in(seconds(1))).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Dial, WithoutBlocking) {
  Port port(true), closed(false);
  auto fd = start_connect(port.address);
  ASSERT_TRUE(fd.ok());
  ASSERT_TRUE(*wait_fd(fd->get(), POLLOUT, in(seconds(5))));
  EXPECT_TRUE(finish_connect(fd->get(), port.address).ok());
  EXPECT_NE(fcntl(fd->get(), F_GETFL) & O_NONBLOCK, 0);
  auto refused = start_connect(closed.address);
  if (refused.ok()) {
    ASSERT_TRUE(*wait_fd(refused->get(), POLLOUT, in(seconds(5))));
    EXPECT_EQ(finish_connect(refused->get(), closed.address).code(), absl::StatusCode::kUnavailable);
  }
}

TEST(WaitFd, EndsAtItsDeadline) {
  Port port(true);
  auto ready = wait_fd(port.fd.get(), POLLIN, in(milliseconds(20)));
  ASSERT_TRUE(ready.ok());
  EXPECT_FALSE(*ready);
}

}  // namespace
}  // namespace rayo::rpc
