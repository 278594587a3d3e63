// If this fails, workers lose their connection to the raylet, the descriptors of their rings, or get in from
// another user.
#include "runtime/base/loop/socket.h"

#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "runtime/base/loop/event.h"

namespace rayo::base {
namespace {

using namespace std::chrono_literals;

struct Pair {
  std::unique_ptr<Stream> left;
  std::unique_ptr<Stream> right;
};

Pair make_pair() {
  int fds[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  return {std::make_unique<Stream>(*current_loop(), Fd(fds[0])), std::make_unique<Stream>(*current_loop(), Fd(fds[1]))};
}

std::span<std::byte> bytes_of(std::string& text) { return std::as_writable_bytes(std::span(text)); }

std::string read_text(Stream& stream, size_t size) {
  std::string text(size, '\0');
  Status status = stream.read_exact(bytes_of(text), current_loop()->deadline(10s));
  EXPECT_TRUE(status.ok()) << status;
  return text;
}

struct TemporaryDir {
  TemporaryDir() {
    char name[] = "/tmp/rayo-socket-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~TemporaryDir() { std::filesystem::remove_all(path); }
  Path path;
};

Fd temporary_file(std::string_view content) {
  char name[] = "/tmp/rayo-fd-XXXXXX";
  Fd fd(::mkostemp(name, O_CLOEXEC));
  ::unlink(name);
  EXPECT_EQ(::write(fd.get(), content.data(), content.size()), static_cast<ssize_t>(content.size()));
  return fd;
}

std::string content_of(const Fd& fd) {
  char buffer[64];
  ssize_t size = ::pread(fd.get(), buffer, sizeof buffer, 0);
  return {buffer, static_cast<size_t>(std::max<ssize_t>(size, 0))};
}

TEST(Stream, CarriesMessagesAndTheirDescriptorsInOrder) {
  run_in_loop([] {
    auto [left, right] = make_pair();
    std::vector<Fd> two;
    two.push_back(temporary_file("one"));
    two.push_back(temporary_file("two"));
    EXPECT_TRUE(left->send("plain"));
    EXPECT_TRUE(left->send("with two", std::move(two)));
    std::vector<Fd> one;
    one.push_back(temporary_file("three"));
    EXPECT_TRUE(left->send("with one", std::move(one)));

    EXPECT_EQ(read_text(*right, 5), "plain");
    EXPECT_EQ(right->descriptors(), 0u);
    EXPECT_EQ(read_text(*right, 8), "with two");
    auto first = right->take_descriptors(2);
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_EQ(content_of((*first)[0]), "one");
    EXPECT_EQ(content_of((*first)[1]), "two");
    EXPECT_NE(::fcntl((*first)[0].get(), F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_FALSE(right->take_descriptors(1).ok());
    EXPECT_EQ(read_text(*right, 8), "with one");
    auto second = right->take_descriptors(1);
    ASSERT_TRUE(second.ok());
    EXPECT_EQ(content_of((*second)[0]), "three");
  });
}

TEST(Stream, SixteenDescriptorsInAMessageAndNoMore) {
  run_in_loop([] {
    auto [left, right] = make_pair();
    std::vector<Fd> many;
    for (int i = 0; i < 16; ++i) many.push_back(temporary_file(std::to_string(i)));
    EXPECT_TRUE(left->write("x", std::move(many), current_loop()->deadline(10s)).ok());
    EXPECT_EQ(read_text(*right, 1), "x");
    auto got = right->take_descriptors(16);
    ASSERT_TRUE(got.ok());
    EXPECT_EQ(content_of((*got)[15]), "15");
    std::vector<Fd> too_many;
    for (int i = 0; i < 17; ++i) too_many.push_back(temporary_file("x"));
    EXPECT_FALSE(left->write("x", std::move(too_many), current_loop()->deadline(10s)).ok());
  });
}

// Several fibers write messages far larger than the socket's buffer: none is mixed with another.
TEST(Stream, LargeMessagesOfSeveralFibersStayWhole) {
  run_in_loop([] {
    auto [left, right] = make_pair();
    constexpr size_t kSize = 1 << 20;
    TaskGroup writers;
    for (char c : {'a', 'b', 'c', 'd'})
      writers.spawn("writer", [&left = left, c] {
        EXPECT_TRUE(left->write(std::string(kSize, c), {}, current_loop()->deadline(20s)).ok());
      });
    std::string seen;
    for (int i = 0; i < 4; ++i) {
      std::string message = read_text(*right, kSize);
      EXPECT_EQ(message, std::string(kSize, message[0]));
      seen += message[0];
    }
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen, "abcd");
    EXPECT_TRUE(writers.join(current_loop()->deadline(10s)));
    EXPECT_EQ(left->backlog(), 0u);
  });
}

TEST(Stream, AReaderHasADeadlineAndSeesTheEnd) {
  run_in_loop([] {
    auto [left, right] = make_pair();
    std::string one(1, '\0');
    auto late = right->read_some(bytes_of(one), current_loop()->deadline(2ms));
    EXPECT_EQ(late.status().code(), absl::StatusCode::kDeadlineExceeded);
    left->send("last");
    EXPECT_TRUE(left->drain(current_loop()->deadline(10s)).ok());
    left->close();
    EXPECT_EQ(read_text(*right, 4), "last");
    EXPECT_EQ(right->read_some(bytes_of(one)).value(), 0u);
    EXPECT_EQ(right->read_exact(bytes_of(one)).code(), absl::StatusCode::kUnavailable);
    EXPECT_FALSE(left->send("more"));
  });
}

TEST(Stream, AWriterToAPeerThatDoesNotReadHasADeadline) {
  run_in_loop([] {
    auto [left, right] = make_pair();
    Status cut = left->write(std::string(8 << 20, 'x'), {}, current_loop()->deadline(5ms));
    EXPECT_EQ(cut.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_TRUE(left->closed());  // in the middle of a message: nothing sensible can follow
    EXPECT_FALSE(right->closed());
  });
}

TEST(Stream, CloseAndCancelEndAWaitingRead) {
  run_in_loop([] {
    auto [left, right] = make_pair();
    TaskGroup group;
    std::vector<absl::StatusCode> codes;
    auto read = [&codes](Stream& stream) {
      std::string one(1, '\0');
      codes.push_back(stream.read_some(bytes_of(one)).status().code());
    };
    group.spawn("closed", [&, stream = right.get()] { read(*stream); });
    yield_fiber();
    right->close();
    EXPECT_TRUE(group.join(current_loop()->deadline(10s)));
    group.spawn("cancelled", [&, stream = left.get()] {
      std::string rest(1, '\0');
      stream->read_some(bytes_of(rest)).IgnoreError();  // the end that right left
      read(*stream);
    });
    group.cancel();
    EXPECT_TRUE(group.join(current_loop()->deadline(10s)));
    EXPECT_EQ(codes, (std::vector{absl::StatusCode::kUnavailable, absl::StatusCode::kCancelled}));
  });
}

TEST(UnixListener, KnowsItsPeerAndKeepsItsDirectoryPrivate) {
  TemporaryDir dir;
  run_in_loop([&] {
    Path path = dir.path / "sub" / "raylet.sock";
    auto listener = UnixListener::open(*current_loop(), path);
    ASSERT_TRUE(listener.ok()) << listener.status();
    struct stat info {};
    ASSERT_EQ(::stat((dir.path / "sub").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
    EXPECT_EQ(UnixListener::open(*current_loop(), path).status().code(), absl::StatusCode::kAlreadyExists);

    auto client = connect_unix(path);
    ASSERT_TRUE(client.ok()) << client.status();
    while ((*listener)->accept(current_loop()->deadline(1ms)).ok()) {  // the probe of the second open() too
    }
    client = connect_unix(path);
    auto server = (*listener)->accept(current_loop()->deadline(10s));
    ASSERT_TRUE(server.ok()) << server.status();
    EXPECT_EQ((*server)->peer()->pid, ::getpid());
    EXPECT_EQ((*server)->peer()->uid, ::geteuid());
    (*listener)->close();
    EXPECT_FALSE(std::filesystem::exists(path));
    EXPECT_EQ(connect_unix(path).status().code(), absl::StatusCode::kUnavailable);
  });
}

TEST(UnixListener, PathsOfAnyLengthAndStaleFiles) {
  TemporaryDir dir;
  run_in_loop([&] {
    Path path = dir.path / std::string(100, 'd') / "control.sock";
    ASSERT_GT(path.string().size(), 107u);
    std::filesystem::create_directory(path.parent_path());
    { auto stale = UnixListener::open(*current_loop(), path); }
    { std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "w"), std::fclose); }
    auto listener = UnixListener::open(*current_loop(), path);
    ASSERT_TRUE(listener.ok()) << listener.status();
    auto client = connect_unix(path);
    ASSERT_TRUE(client.ok()) << client.status();
    EXPECT_TRUE((*listener)->accept(current_loop()->deadline(10s)).ok());
  });
}

TEST(UnixListener, BindsAgainWhereItsFileWasRemoved) {
  TemporaryDir dir;
  run_in_loop([&] {
    Path path = dir.path / "sub" / "control.sock";
    auto listener = UnixListener::open(*current_loop(), path);
    ASSERT_TRUE(listener.ok());
    TaskGroup group;
    bool accepted = false;
    group.spawn("accept", [&] { accepted = (*listener)->accept(current_loop()->deadline(20s)).ok(); });
    yield_fiber();
    std::filesystem::remove_all(path.parent_path());
    TimePoint limit = current_loop()->deadline(20s);
    while (!accepted && current_loop()->now() < limit) {
      auto client = connect_unix(path);
      if (client.ok()) {
        EXPECT_TRUE(group.join(limit));
      }
      sleep_for(20ms);
    }
    EXPECT_TRUE(accepted);
  });
}

// With every descriptor taken, callers are turned away; as soon as there is room the next one gets in.
TEST(Acceptor, SurvivesALackOfDescriptors) {
  TemporaryDir dir;
  run_in_loop([&] {
    Path path = dir.path / "s" / "control.sock";
    auto listener = UnixListener::open(*current_loop(), path);
    ASSERT_TRUE(listener.ok());
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    std::vector<Fd> clients;
    for (int i = 0; i < 40; ++i) clients.push_back(std::move(*connect_unix(path)));
    rlimit tight = before;
    int next = ::dup(0);
    ::close(next);
    tight.rlim_cur = static_cast<rlim_t>(next + 8);  // 8 more and no other
    ::setrlimit(RLIMIT_NOFILE, &tight);
    std::vector<Fd> accepted;
    while (true) {
      auto fd = (*listener)->accept_fd(current_loop()->deadline(100ms));
      if (!fd.ok()) break;
      accepted.push_back(std::move(*fd));
    }
    EXPECT_LE(accepted.size(), 8u);
    EXPECT_GE(accepted.size(), 1u);
    accepted.clear();
    auto good = connect_unix(path);
    EXPECT_TRUE(good.ok()) << good.status();
    EXPECT_TRUE((*listener)->accept_fd(current_loop()->deadline(10s)).ok());
    ::setrlimit(RLIMIT_NOFILE, &before);
  });
}

}  // namespace
}  // namespace rayo::base
