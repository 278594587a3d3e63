// If this fails, a node's port can be blocked by strangers, a taken port goes unexplained, or data
// connections get lost.
#include "runtime/rpc/grpc/port.h"

#include <arpa/inet.h>
#include <cstring>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "runtime/base/address.h"
#include "runtime/base/loop/socket.h"
#include "runtime/rpc/dial.h"
#include "served_cluster.h"

namespace rayo::rpc {
namespace {

base::Fd connect_to(int port) {
  base::Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return {};
  return fd;
}

bool says_good(ServedCluster& cluster) {
  auto reply = cluster.dial(Role::kNode)->call(head::kGetStatus, proto::StatusRequest(), soon());
  EXPECT_TRUE(reply.ok()) << reply.status();
  return reply.ok();
}

// The stream ends without a byte, before the deadline.
bool is_cut(base::Stream& stream) {
  std::byte byte{};
  auto got = stream.read_some({&byte, 1}, base::current_loop()->deadline(10s));
  return got.ok() ? *got == 0 : absl::IsUnavailable(got.status());
}

TEST(Port, ADataHeaderIsReadExactlyAndTheRestStaysInTheSocket) {
  base::run_in_loop([] {
    ServedCluster cluster;
    base::Stream stream(*base::current_loop(), connect_to(cluster.port->port()));
    std::string header("RAYO");
    header.resize(kDataHeaderBytes, 'h');
    ASSERT_TRUE(stream.write(header.substr(0, 10), {}, soon()).ok());
    base::sleep_for(5ms);
    ASSERT_TRUE(stream.write(header.substr(10) + "next", {}, soon()).ok());
    base::TimePoint limit = soon();
    while (cluster.data_headers.empty() && base::current_loop()->now() < limit) base::sleep_for(1ms);
    ASSERT_EQ(cluster.data_headers.size(), 1u);
    EXPECT_EQ(std::memcmp(cluster.data_headers[0].data(), header.data(), header.size()), 0);
    base::Stream rest(*base::current_loop(), std::move(cluster.data_sockets[0]));
    std::string next(4, '\0');
    ASSERT_TRUE(rest.read_exact(std::as_writable_bytes(std::span(next)), soon()).ok());
    EXPECT_EQ(next, "next");
    EXPECT_EQ(cluster.port->pending(), 0);
  });
}

TEST(Port, WhatIsNotOursIsCutWithoutAWord) {
  base::run_in_loop([] {
    ServedCluster cluster;
    for (std::string text : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("RAYX") + std::string(60, 'x'),
                             std::string(300, '\0'), std::string("\xff\xfe\xfd")}) {
      base::Stream stream(*base::current_loop(), connect_to(cluster.port->port()));
      stream.write(text, {}, soon()).IgnoreError();
      EXPECT_TRUE(is_cut(stream)) << text.substr(0, 4);
    }
    // A TLS hello that is none goes to gRPC, which cuts it.
    base::Stream stream(*base::current_loop(), connect_to(cluster.port->port()));
    stream.write(std::string("\x16\x03\x01") + std::string(500, 'r'), {}, soon()).IgnoreError();
    std::string alert(64, '\0');
    while (true) {
      auto got = stream.read_some(std::as_writable_bytes(std::span(alert)), soon());
      if (!got.ok() || *got == 0) break;
    }
    EXPECT_TRUE(cluster.data_headers.empty());
    EXPECT_TRUE(says_good(cluster));
  });
}

TEST(Port, SilentConnectionsAreCutAndKeepNobodyOut) {
  base::run_in_loop([] {
    ServedCluster cluster;
    std::vector<std::unique_ptr<base::Stream>> silent;
    for (int i = 0; i < 100; ++i)
      silent.push_back(std::make_unique<base::Stream>(*base::current_loop(), connect_to(cluster.port->port())));
    // Half of them say that they will speak TLS, and do not.
    for (size_t i = 0; i < 50; ++i) silent[i]->send("\x16");
    EXPECT_TRUE(says_good(cluster));
    for (auto& stream : silent) EXPECT_TRUE(is_cut(*stream));
    base::TimePoint limit = soon();
    while (cluster.port->pending() > 0 && base::current_loop()->now() < limit) base::sleep_for(20ms);
    EXPECT_EQ(cluster.port->pending(), 0);
  });
}

// gRPC's own listener dies for good here.
TEST(Port, SurvivesALackOfDescriptors) {
  base::run_in_loop([] {
    ServedCluster cluster;
    EXPECT_TRUE(says_good(cluster));
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    rlimit tight = before;
    tight.rlim_cur = 200;
    ::setrlimit(RLIMIT_NOFILE, &tight);
    {
      // The far ends live in a child: only the accepted ones count here.
      int ready[2];
      ASSERT_EQ(::pipe(ready), 0);
      pid_t child = ::fork();
      if (child == 0) {
        ::setrlimit(RLIMIT_NOFILE, &before);
        int connected = 0;
        for (int i = 0; i < 400; ++i) connected += connect_to(cluster.port->port()).release() >= 0 ? 1 : 0;
        [[maybe_unused]] auto told = ::write(ready[1], &connected, sizeof connected);
        ::pause();
      }
      int connected = 0;
      ASSERT_TRUE(base::wait_readable(*base::current_loop(), ready[0], soon()).ok());
      EXPECT_EQ(::read(ready[0], &connected, sizeof connected), static_cast<ssize_t>(sizeof connected));
      EXPECT_GT(connected, 100);
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
      ::close(ready[0]);
      ::close(ready[1]);
    }
    base::TimePoint limit = soon();
    bool good = false;
    while (!good && base::current_loop()->now() < limit) {
      good = cluster.dial(Role::kNode)->call(head::kGetStatus, proto::StatusRequest(), limit).ok();
      if (!good) base::sleep_for(50ms);
    }
    EXPECT_TRUE(good);
    ::setrlimit(RLIMIT_NOFILE, &before);
  });
}

TEST(Port, ATakenPortMovesOrNamesItsHolder) {
  base::run_in_loop([] {
    auto* loop = base::current_loop();
    base::Binding binding;
    binding.host = "127.0.0.1";
    auto first = Port::open(*loop, binding);
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_GT((*first)->port(), 0);
    EXPECT_TRUE((*first)->notes().empty());
    binding.port = (*first)->port();
    auto second = Port::open(*loop, binding);
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_NE((*second)->port(), (*first)->port());
    ASSERT_EQ((*second)->notes().size(), 1u);
    std::string pid = base::cat("(pid ", ::getpid(), ")");
    EXPECT_NE((*second)->notes()[0].find(pid), std::string::npos) << (*second)->notes()[0];
    binding.port_fixed = true;
    auto third = Port::open(*loop, binding);
    EXPECT_EQ(third.status().code(), absl::StatusCode::kAlreadyExists);
    EXPECT_NE(base::message(third.status()).find(pid), std::string_view::npos) << third.status();
    EXPECT_FALSE(base::next_step(third.status()).empty());
  });
}

TEST(Port, PublishesWhatItIsToldToAdvertise) {
  base::run_in_loop([] {
    base::Binding binding;
    binding.host = "127.0.0.1";
    binding.advertise = "gate.example";
    auto port = Port::open(*base::current_loop(), binding);
    ASSERT_TRUE(port.ok()) << port.status();
    EXPECT_EQ((*port)->address(), base::cat("gate.example:", (*port)->port()));
    binding.advertise = "gate.example:99";
    port = Port::open(*base::current_loop(), binding);
    ASSERT_TRUE(port.ok()) << port.status();
    EXPECT_EQ((*port)->address(), "gate.example:99");
    binding.host = "192.0.2.1";  // of no machine
    EXPECT_EQ(Port::open(*base::current_loop(), binding).status().code(), absl::StatusCode::kInvalidArgument);
  });
}

TEST(Port, WithoutHandlersConnectionsWaitUntilItIsServed) {
  base::run_in_loop([] {
    base::Binding binding;
    binding.host = "127.0.0.1";
    auto port = Port::open(*base::current_loop(), binding);
    ASSERT_TRUE(port.ok());
    base::Stream stream(*base::current_loop(), connect_to((*port)->port()));
    ASSERT_TRUE(stream.write("RAYO" + std::string(60, 'x'), {}, soon()).ok());
    base::Event came;
    (*port)->serve({[](base::Fd) {}, [&](base::Fd, const DataHeaderBytes&) { came.set(); }});
    EXPECT_TRUE(came.wait(soon()));
    (*port)->close();
  });
}

}  // namespace
}  // namespace rayo::rpc
