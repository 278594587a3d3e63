// If this fails, calls between nodes and a process's words with its raylet are damaged, cut, or lose their
// descriptors.
#include "runtime/rpc/tcp_channel.h"

#include <gtest/gtest.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include "runtime/rpc/tls_pump.h"

namespace rayo::rpc {
namespace {

struct Pair {
  std::unique_ptr<SocketChannel> a, b;
  int raw_a = -1;
};

Pair make_pair(std::unique_ptr<TlsPump> tls_a = nullptr, std::unique_ptr<TlsPump> tls_b = nullptr) {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {std::make_unique<SocketChannel>(base::Fd(ends[0]), std::move(tls_a)),
          std::make_unique<SocketChannel>(base::Fd(ends[1]), std::move(tls_b)), ends[0]};
}

void send(SocketChannel& channel, std::string_view body, std::span<const int> fds = {}) {
  const Bytes part = std::as_bytes(std::span(body));
  channel.send({}, std::span(&part, 1), fds);
}

struct Received {
  std::vector<std::string> bodies;
  std::vector<size_t> descriptors;
  base::Status end;
};

// Moves both ends until `count` frames are there or nothing moves any more.
void exchange(SocketChannel& from, SocketChannel& to, size_t count, Received& got) {
  const auto take = [&](const FrameHeader&, Bytes body, std::vector<base::Fd>& fds) {
    got.bodies.emplace_back(reinterpret_cast<const char*>(body.data()), body.size());
    got.descriptors.push_back(fds.size());
  };
  const auto ignore = [](const FrameHeader&, Bytes, std::vector<base::Fd>&) {};
  for (int turn = 0; turn < 100'000 && got.bodies.size() < count && got.end.ok(); ++turn) {
    (void)from.flush();
    got.end = to.on_readable(take, 256 << 10);
    (void)to.flush();
    (void)from.on_readable(ignore);
  }
}

void expect_passes_whole(Pair pair) {
  std::vector<std::string> sent;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{100'000}, size_t{3}, size_t{5'000'000}}) {
    sent.emplace_back(size, static_cast<char>('a' + size % 26));
    send(*pair.a, sent.back());
  }
  Received got;
  exchange(*pair.a, *pair.b, sent.size(), got);
  EXPECT_EQ(got.bodies, sent);
  EXPECT_TRUE(got.end.ok()) << got.end;
  EXPECT_EQ(pair.a->backlog(), 0u);
}

TEST(SocketChannel, FramesPassWhole) { expect_passes_whole(make_pair()); }

TEST(SocketChannel, FramesPassWholeOverTls) {
  Secret key{};
  key[0] = 1;
  expect_passes_whole(
      make_pair(std::make_unique<TlsPump>(TlsPump::client(key)), std::make_unique<TlsPump>(TlsPump::server(key))));
}

TEST(SocketChannel, AnotherKeyIsRefused) {
  Secret key{}, other{};
  key[0] = 1;
  Pair pair =
      make_pair(std::make_unique<TlsPump>(TlsPump::client(other)), std::make_unique<TlsPump>(TlsPump::server(key)));
  send(*pair.a, "secret");
  Received got;
  exchange(*pair.a, *pair.b, 1, got);
  EXPECT_TRUE(got.bodies.empty());
  EXPECT_FALSE(got.end.ok());
}

TEST(SocketChannel, EachFrameHasItsOwnDescriptors) {
  Pair pair = make_pair();
  const std::vector<int> two{0, 1}, many(200, 2);
  send(*pair.a, "none");
  send(*pair.a, "two", two);
  send(*pair.a, std::string(300'000, 'm'), many);
  send(*pair.a, "none");
  send(*pair.a, "two", two);
  Received got;
  exchange(*pair.a, *pair.b, 5, got);
  EXPECT_EQ(got.descriptors, (std::vector<size_t>{0, 2, 200, 0, 2}));
}

TEST(SocketChannel, TheEndComesAfterTheLastFrame) {
  Pair pair = make_pair();
  send(*pair.a, "last words");
  ASSERT_TRUE(pair.a->flush().ok());
  pair.a.reset();
  Received got;
  const auto take = [&](const FrameHeader&, Bytes body, std::vector<base::Fd>&) {
    got.bodies.emplace_back(reinterpret_cast<const char*>(body.data()), body.size());
  };
  base::Status end = pair.b->on_readable(take);
  if (end.ok()) end = pair.b->on_readable(take);
  EXPECT_EQ(got.bodies, std::vector<std::string>{"last words"});
  EXPECT_EQ(end.code(), absl::StatusCode::kUnavailable);
}

TEST(SocketChannel, WhatIsNoFrameEndsTheChannel) {
  Pair pair = make_pair();
  const std::string garbage(1000, '\xee');
  ASSERT_EQ(::write(pair.raw_a, garbage.data(), garbage.size()), static_cast<ssize_t>(garbage.size()));
  EXPECT_EQ(pair.b->on_readable([](const FrameHeader&, Bytes, std::vector<base::Fd>&) { ADD_FAILURE(); }).code(),
            absl::StatusCode::kDataLoss);
}

TEST(SocketChannel, AFrameThatClaimsDescriptorsWithoutThemIsRefused) {
  Pair pair = make_pair();
  FrameHeader header;
  header.sequence = 3;
  ASSERT_EQ(::write(pair.raw_a, &header, sizeof header), static_cast<ssize_t>(sizeof header));
  EXPECT_FALSE(pair.b->on_readable([](const FrameHeader&, Bytes, std::vector<base::Fd>&) { ADD_FAILURE(); }).ok());
}

}  // namespace
}  // namespace rayo::rpc
