// If these fail, a machine does not get into its cluster, or is not told why, or a stranger is told
// something.
#include "runtime/rpc/join.h"

#include <functional>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>

#include "runtime/base/text.h"
#include "runtime/rpc/dial.h"
#include "runtime/rpc/tls_stream.h"

namespace rayo::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr ClusterId kCluster{0xabc, 0xdef};
const Joiner kJoiner{Role::kNode, {7, 8}, "0.1.3"};

base::TimePoint in(base::Duration span) { return base::deadline_after(base::system_clock().now(), span); }

// A listening socket on loopback whose one connection a thread serves.
class Listener {
 public:
  explicit Listener(std::function<void(base::Fd)> serve) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
    listen(fd_.get(), 8);
    thread_ = std::thread([this, serve = std::move(serve)] {
      if (wait_fd(fd_.get(), POLLIN, in(seconds(20))).value_or(false))
        serve(base::Fd(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
    });
  }
  ~Listener() { thread_.join(); }
  base::HostPort address() const { return {"127.0.0.1", local_address(fd_.get())->port()}; }

 private:
  base::Fd fd_;
  std::thread thread_;
};

class Join : public testing::Test {
 protected:
  Join() {
    desk_.authority = *make_authority(kCluster, base::system_clock().wall());
    token_ = Token::make(*fingerprint_of(desk_.authority.certificate_pem));
    desk_.token_secret = token_.secret;
    desk_.cluster = kCluster;
    desk_.cluster_name = "brave-otter";
    desk_.version = "0.1.0";
    desk_.data_secret = token_.data_secret();
  }

  // What the head's acceptor and its join thread do.
  std::function<void(base::Fd)> head() {
    return [this](base::Fd socket) {
      DataHeaderBytes bytes{};
      served_ = receive_all(socket.get(), reinterpret_cast<char*>(bytes.data()), bytes.size(), in(seconds(5)));
      auto header = parse_data_header(bytes);
      if (!header) return;
      auto joined = serve_join(std::move(socket), *header, desk_);
      served_ = joined.status();
      if (joined.ok()) joined_ = *joined;
    };
  }

  // The error of a join against `serve`: its code, then its two lines with the port cut out.
  base::Status refused(std::function<void(base::Fd)> serve, base::Duration limit = seconds(20)) {
    Listener listener(std::move(serve));
    auto result = join(listener.address(), token_, kJoiner, in(limit));
    EXPECT_FALSE(result.ok());
    port_ = listener.address().text();
    return result.status();
  }

  JoinDesk desk_;
  Token token_;
  std::string port_;
  base::Status served_;
  std::optional<RoleName> joined_;
};

TEST_F(Join, GivesEverythingThatAMemberNeeds) {
  base::StatusOr<JoinResult> result;
  {
    Listener listener(head());
    result = join(listener.address(), token_, kJoiner, in(seconds(20)));
  }
  ASSERT_TRUE(result.ok()) << base::message(result.status());
  EXPECT_EQ(result->cluster, kCluster);
  EXPECT_EQ(result->cluster_name, "brave-otter");
  EXPECT_EQ(result->version, "0.1.0");
  EXPECT_EQ(result->data_secret, token_.data_secret());
  RoleName expected{Role::kNode, kCluster, {7, 8}};
  EXPECT_EQ(*role_of(result->identity.certificate_pem), expected);
  EXPECT_TRUE(check_identity(result->identity, base::system_clock().wall()).ok());
  ASSERT_TRUE(served_.ok()) << base::message(served_);
  EXPECT_EQ(joined_, expected);
}

TEST_F(Join, ATokenMakesNobodyTheHead) {
  Listener listener(head());
  auto result = join(listener.address(), token_, {Role::kClient, {1, 1}, "0.1.0"}, in(seconds(20)));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(role_of(result->identity.certificate_pem)->role, Role::kClient);
}

TEST_F(Join, ANameThatDoesNotResolve) {
  auto result = join({"no-such-host.invalid", 6379}, token_, kJoiner, in(seconds(20)));
  EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(join_exit_code(result.status()), 3);
  EXPECT_TRUE(base::message(result.status())
                  .starts_with("cannot connect to no-such-host.invalid:6379: the name 'no-such-host.invalid' "
                               "does not resolve ("))
      << base::message(result.status());
  EXPECT_EQ(base::next_step(result.status()), "check the name, or give the address in numbers");
}

TEST_F(Join, NobodyListens) {
  base::HostPort address;
  {
    Listener gone([](base::Fd) {});
    address = gone.address();
    (void)dial(address, in(seconds(5)));
  }
  auto result = join(address, token_, kJoiner, in(seconds(20)));
  EXPECT_EQ(base::message(result.status()), base::cat("cannot connect to ", address.text(), ": connection refused"));
  EXPECT_EQ(base::next_step(result.status()),
            "is Rayo running there, with this port? `rayo status` on that machine tells");
  EXPECT_EQ(join_exit_code(result.status()), 3);
}

TEST_F(Join, SomethingAcceptsAndStaysSilent) {
  base::Status error = refused(
      [](base::Fd socket) {
        char bytes[4096];
        while (recv(socket.get(), bytes, sizeof bytes, 0) > 0) continue;
      },
      milliseconds(300));
  EXPECT_EQ(base::message(error), base::cat("cannot join at ", port_,
                                            ": timed out: something accepts connections there, but did not answer"));
  EXPECT_EQ(join_exit_code(error), 3);
}

TEST_F(Join, TheWrongTokenIsToldNothing) {
  desk_.token_secret = random_secret();
  base::Status error = refused(head());
  EXPECT_EQ(error.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(join_exit_code(error), 4);
  EXPECT_EQ(
      base::message(error),
      base::cat("the head at ", port_, " closed the connection on our join header: wrong token, or not a Rayo port"));
  EXPECT_EQ(base::next_step(error), "`rayo token` on the head's machine prints the right line");
  EXPECT_EQ(served_.code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(Join, AStrangerReadsNotOneByte) {
  LinkKeys keys = LinkKeys::of_join(token_.secret);
  DataHeader header = make_data_header(LinkKind::kJoin, true, {}, keys);
  // Each shows something else behind a header: a forged one, a true one that was overheard, and a data header
  // of a worker.
  DataHeader forged = header,
             worker = make_data_header(LinkKind::kJoin, true, {}, LinkKeys::of_data(desk_.data_secret));
  forged.nonce[0] ^= 1;
  for (const DataHeader& shown : {forged, header, worker}) {
    std::string heard;
    Listener listener(head());
    auto socket = dial(listener.address(), in(seconds(5)));
    ASSERT_TRUE(socket.ok());
    DataHeaderBytes bytes = encode(shown);
    TlsPump pump = TlsPump::client(random_secret());
    (void)send_all(socket->get(), {reinterpret_cast<char*>(bytes.data()), bytes.size()}, in(seconds(5)));
    (void)send_all(socket->get(), pump.pending_ciphertext(), in(seconds(5)));
    char byte;
    EXPECT_EQ(receive_all(socket->get(), &byte, 1, in(seconds(5))).code(), absl::StatusCode::kAborted);
  }
}

TEST_F(Join, AnotherServicesPort) {
  base::Status error = refused([](base::Fd socket) {
    (void)send_all(socket.get(), "HTTP/1.1 400 Bad Request\r\n\r\n", in(seconds(5)));
    char bytes[4096];
    while (recv(socket.get(), bytes, sizeof bytes, 0) > 0) continue;
  });
  EXPECT_EQ(base::message(error),
            base::cat("what answers at ", port_, " does not hold this token: wrong token, or not a Rayo port"));
  EXPECT_EQ(join_exit_code(error), 4);
}

TEST_F(Join, AHeadWithAnotherCa) {
  desk_.authority = *make_authority(kCluster, base::system_clock().wall());
  base::Status error = refused(head());
  EXPECT_EQ(error.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(join_exit_code(error), 4);
  std::string theirs = Token{{}, *fingerprint_of(desk_.authority.certificate_pem)}.text().substr(65, 16);
  std::string ours = token_.text().substr(65, 16);
  EXPECT_EQ(base::message(error), base::cat("the head at ", port_, " shows another CA (", theirs,
                                            "...) than the token names (", ours, "...)"));
}

TEST_F(Join, AnotherMinorVersion) {
  desk_.version = "0.2.0";
  base::Status error = refused(head());
  EXPECT_EQ(error.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(join_exit_code(error), 4);
  EXPECT_EQ(base::message(error), base::cat("this machine runs Rayo 0.1.3, the head at ", port_, " runs 0.2.0"));
  EXPECT_EQ(base::next_step(error), "install the same minor version on both");
  EXPECT_EQ(base::message(served_), "the head runs Rayo 0.2.0, you run 0.1.3");
}

TEST_F(Join, AHeadThatDiesOnTheWay) {
  base::Status error = refused([this](base::Fd socket) {
    DataHeaderBytes bytes{};
    (void)receive_all(socket.get(), reinterpret_cast<char*>(bytes.data()), bytes.size(), in(seconds(5)));
    auto header = parse_data_header(bytes);
    TlsStream stream(std::move(socket), TlsPump::server(LinkKeys::of_join(token_.secret).tls_key(header->nonce)),
                     in(seconds(5)));
    (void)stream.handshake();
  });
  EXPECT_EQ(base::message(error), base::cat("the head at ", port_, " went away during our join"));
  EXPECT_EQ(join_exit_code(error), 3);
}

TEST_F(Join, ASlowStrangerIsCutAfterTwoSeconds) {
  DataHeader header = make_data_header(LinkKind::kJoin, true, {}, LinkKeys::of_join(token_.secret));
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  base::Fd mine(pair[0]);
  auto begin = base::system_clock().now();
  auto served = serve_join(base::Fd(pair[1]), header, desk_);
  EXPECT_EQ(served.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_GE(base::system_clock().now() - begin, kHandshakeLimit);
  EXPECT_LT(base::system_clock().now() - begin, 10 * kHandshakeLimit);
}

TEST_F(Join, ATokenHolderWhoTalksNonsenseIsRefused) {
  auto talk = [this](std::string message) {
    Listener listener(head());
    LinkKeys keys = LinkKeys::of_join(token_.secret);
    DataHeader header = make_data_header(LinkKind::kJoin, true, {}, keys);
    DataHeaderBytes bytes = encode(header);
    auto socket = dial(listener.address(), in(seconds(5)));
    (void)send_all(socket->get(), {reinterpret_cast<char*>(bytes.data()), bytes.size()}, in(seconds(5)));
    TlsStream stream(*std::move(socket), TlsPump::client(keys.tls_key(header.nonce)), in(seconds(5)));
    (void)stream.write_message(message);
    (void)stream.read_message(1 << 20);
  };
  talk("\xff\xff\xff nonsense");
  EXPECT_EQ(served_.code(), absl::StatusCode::kInvalidArgument);
  talk(std::string(70'000, 'x'));
  EXPECT_EQ(base::message(served_), "the peer announced a message that is too long");
  talk("");  // a message without version, role or request
  EXPECT_EQ(served_.code(), absl::StatusCode::kFailedPrecondition);
}

TEST(SameMinorVersion, LooksAtTheFirstTwoNumbers) {
  EXPECT_TRUE(same_minor_version("0.1.7", "0.1.2"));
  EXPECT_FALSE(same_minor_version("0.1.0", "0.2.0"));
  EXPECT_FALSE(same_minor_version("1.1.0", "0.1.0"));
  EXPECT_FALSE(same_minor_version("0.1.0", "0.10.0"));
  EXPECT_FALSE(same_minor_version("", ""));
}

}  // namespace
}  // namespace rayo::rpc
