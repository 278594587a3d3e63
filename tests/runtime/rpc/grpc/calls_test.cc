// If this fails, nodes and the CLI cannot talk to the head, strangers can, or a daemon hangs when it stops.
#include <gtest/gtest.h>
#include <thread>

#include "runtime/base/loop/blocking.h"
#include "served_cluster.h"

namespace rayo::rpc {
namespace {

proto::NodeUp numbered(uint64_t number) {
  proto::NodeUp up;
  up.set_request(number);
  return up;
}

void every_kind_of_call(Channel& channel) {
  auto status = channel.call(head::kGetStatus, proto::StatusRequest(), soon());
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->name(), "test");

  auto fetch = channel.open(head::kFetchPackage, proto::FetchPackageRequest(), soon());
  ASSERT_TRUE(fetch.ok()) << fetch.status();
  for (int i = 0; i < 5; ++i) {
    auto chunk = (*fetch)->read(soon());
    ASSERT_TRUE(chunk.ok() && *chunk) << chunk.status();
    EXPECT_EQ((*chunk)->offset(), i);
    EXPECT_EQ((*chunk)->data().size(), 100'000u);
  }
  EXPECT_EQ((*fetch)->read(soon()).value(), std::nullopt);
  EXPECT_TRUE((*fetch)->finish(soon()).ok());

  auto send = channel.open(head::kSendPackage, soon());
  for (int i = 0; i < 3; ++i) {
    proto::PackageChunk chunk;
    chunk.set_data(std::string(100'000, 'x'));
    EXPECT_TRUE(send->write(chunk, soon()).ok());
  }
  auto reply = finish_with_reply(*send, soon());
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_TRUE(reply->needed());

  auto attach = channel.open(head::kAttach);
  for (uint64_t i = 0; i < 20; ++i) {
    EXPECT_TRUE(attach->write(numbered(i), soon()).ok());
    auto down = attach->read(soon());
    ASSERT_TRUE(down.ok() && *down) << down.status();
    EXPECT_EQ((*down)->request(), i + 1);
  }
  EXPECT_EQ(attach->read(base::current_loop()->deadline(5ms)).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(attach->write(numbered(50), soon()).ok());
  auto after_timeout = attach->read(soon());  // the read that timed out lost nothing
  ASSERT_TRUE(after_timeout.ok() && *after_timeout) << after_timeout.status();
  EXPECT_EQ((*after_timeout)->request(), 51u);
  EXPECT_TRUE(attach->writes_done(soon()).ok());
  EXPECT_TRUE(attach->finish(soon()).ok());
}

TEST(Calls, EveryKindOverAUnixSocket) {
  base::run_in_loop([] {
    ServedCluster cluster;
    auto channel = Channel::local(cluster.socket());
    every_kind_of_call(*channel);
    EXPECT_TRUE(cluster.handlers.last_peer.local);
    EXPECT_EQ(cluster.handlers.last_peer.text(), "this machine");
    // Our own uid on this machine may do everything.
    auto stop = channel->open(head::kStopCluster, proto::StopRequest(), soon());
    ASSERT_TRUE(stop.ok());
    EXPECT_TRUE((*stop)->finish(soon()).ok());
  });
}

TEST(Calls, EveryKindOverMutualTls) {
  base::run_in_loop([] {
    ServedCluster cluster;
    auto channel = cluster.dial(Role::kNode);
    every_kind_of_call(*channel);
    EXPECT_TRUE(cluster.handlers.last_peer.is_node());
    EXPECT_EQ(cluster.handlers.last_peer.name.cluster, cluster.certificates.cluster);
  });
}

TEST(Calls, AHandlersErrorKeepsItsCodeTextAndNextStep) {
  base::run_in_loop([] {
    ServedCluster cluster;
    auto channel = Channel::local(cluster.socket());
    proto::WhyRequest request;
    request.set_id("zzz");
    auto reply = channel->call(head::kWhy, request, soon());
    EXPECT_EQ(reply.status().code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(base::message(reply.status()), "nothing is named zzz");
    EXPECT_EQ(base::next_step(reply.status()), "try `rayo list`");
    auto unknown = channel->call(head::kGetConfig, proto::ConfigRequest(), soon());
    EXPECT_EQ(unknown.status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_NE(base::message(unknown.status()).find("does not know GetConfig"), std::string_view::npos);
  });
}

TEST(Calls, BlockingFromAThreadOfItsOwn) {
  base::run_in_loop([] {
    ServedCluster cluster;
    auto channel = cluster.dial(Role::kNode);
    base::WorkThreads threads("test-beat", 1);
    auto reply = base::run_on_thread(threads, [&] {
      proto::RelayRequest request;
      request.mutable_key_value()->set_key("seven");
      return channel->call_blocking(head::kRelay, request, 20s);
    });
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->key_value().value(), "seven");
  });
}

// A raylet's beats: else a busy loop would be taken for the node's death.
TEST(Calls, AStreamOnASecondLoopWhileTheFirstStandsStill) {
  base::run_in_loop([] {
    ServedCluster cluster;
    auto channel = cluster.dial(Role::kNode);
    base::WorkThreads threads("test-beat", 1);
    uint64_t answered = 0;
    base::run_on_thread(threads, [&] {
      base::run_in_loop([&] {
        auto stream = channel->open(head::kBeat);
        for (uint64_t number = 1; number <= 3; ++number) {
          proto::BeatRequest request;
          request.set_number(number);
          ASSERT_TRUE(stream->write(request, soon()).ok());
          auto reply = stream->read(soon());
          ASSERT_TRUE(reply.ok() && *reply) << reply.status();
          answered = (*reply)->number();
        }
      });
    });
    EXPECT_EQ(answered, 3u);
  });
}

TEST(Calls, ManyAtATime) {
  base::run_in_loop([] {
    ServedCluster cluster;
    auto channel = cluster.dial(Role::kNode);
    int right = 0;
    base::TaskGroup group;
    for (int fiber = 0; fiber < 32; ++fiber)
      group.spawn("caller", [&, fiber] {
        for (int i = 0; i < 20; ++i) {
          proto::RelayRequest request;
          request.mutable_key_value()->set_key(std::to_string(fiber * 100 + i));
          auto reply = channel->call(head::kRelay, request, soon());
          if (reply.ok() && reply->key_value().value() == request.key_value().key()) ++right;
        }
      });
    EXPECT_TRUE(group.join(soon()));
    EXPECT_EQ(right, 640);
  });
}

// ---- who may ----

TEST(Access, ByRoleBeforeTheMessage) {
  base::run_in_loop([] {
    ServedCluster cluster;
    auto node = cluster.dial(Role::kNode);
    auto client = cluster.dial(Role::kClient);
    auto stop = node->open(head::kStopCluster, proto::StopRequest(), soon());
    base::Status refused = stop.ok() ? (*stop)->finish(soon()) : stop.status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << refused;
    EXPECT_EQ(client->call(head::kRelay, proto::RelayRequest(), soon()).status().code(),
              absl::StatusCode::kPermissionDenied);
    EXPECT_TRUE(client->call(head::kGetStatus, proto::StatusRequest(), soon()).ok());
    auto allowed = client->open(head::kStopCluster, proto::StopRequest(), soon());
    ASSERT_TRUE(allowed.ok());
    EXPECT_TRUE((*allowed)->finish(soon()).ok());
    auto attach = client->open(head::kAttach);
    EXPECT_EQ(attach->finish(soon()).code(), absl::StatusCode::kPermissionDenied);
  });
}

TEST(Access, ACertificateOfAnotherClusterIsRefused) {
  base::run_in_loop([] {
    ServedCluster cluster;
    Certificates other;
    auto stranger = cluster.dial(other.identity(Role::kNode));
    auto reply = stranger->call(head::kGetStatus, proto::StatusRequest(), soon());
    EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnauthenticated) << reply.status();
    // It trusts our CA, but shows a certificate of its own: the server cuts the handshake.
    TlsIdentity half = other.identity(Role::kNode);
    half.ca_pem = cluster.certificates.authority.certificate_pem;
    auto cut = cluster.dial(half)->call(head::kGetStatus, proto::StatusRequest(), soon());
    EXPECT_EQ(cut.status().code(), absl::StatusCode::kUnavailable) << cut.status();
    EXPECT_EQ(cluster.server.calls(), 0);
    EXPECT_TRUE(cluster.dial(Role::kNode)->call(head::kGetStatus, proto::StatusRequest(), soon()).ok());
  });
}

TEST(Access, ANodesCertificateDoesNotPassAsTheHeads) {
  base::run_in_loop([] {
    ServedCluster cluster;
    auto looks_for_node = cluster.dial(Role::kNode, Role::kNode);
    auto reply = looks_for_node->call(head::kGetStatus, proto::StatusRequest(), soon());
    EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnauthenticated) << reply.status();
    EXPECT_NE(base::message(reply.status()).find("its certificate says rayo://"), std::string_view::npos);
  });
}

// ---- what goes wrong ----

TEST(Failures, NobodyThere) {
  base::run_in_loop([] {
    ServedCluster cluster;
    TemporaryDir dir;
    auto nobody = Channel::local(dir.path / "control.sock");
    auto reply = nobody->call(head::kGetStatus, proto::StatusRequest(), soon());
    EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_NE(base::message(reply.status()).find("nothing listens there"), std::string_view::npos) << reply.status();

    auto refused = Channel::tls({.addresses = {"127.0.0.1:1"},
                                 .identity = cluster.certificates.identity(Role::kNode),
                                 .expect = {Role::kHead, {}, {}}});
    reply = refused->call(head::kGetStatus, proto::StatusRequest(), soon());
    EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(base::message(reply.status()), "cannot reach 127.0.0.1:1: connection refused");
    EXPECT_FALSE(base::next_step(reply.status()).empty());
  });
}

TEST(Failures, TheSecondAddressIsTried) {
  base::run_in_loop([] {
    ServedCluster cluster;
    auto channel = Channel::tls({.addresses = {"127.0.0.1:1", cluster.port->address()},
                                 .identity = cluster.certificates.identity(Role::kNode),
                                 .expect = {Role::kHead, cluster.certificates.cluster, {}}});
    EXPECT_TRUE(channel->call(head::kGetStatus, proto::StatusRequest(), soon()).ok());
    auto attach = channel->open(head::kAttach);
    EXPECT_TRUE(attach->write(numbered(1), soon()).ok());
    EXPECT_TRUE(attach->read(soon()).ok());
  });
}

TEST(Failures, ACallHasADeadlineAndTheHandlerSeesThatItsCallerIsGone) {
  base::run_in_loop([] {
    ServedCluster cluster;
    auto channel = Channel::local(cluster.socket());
    ASSERT_TRUE(channel->call(head::kGetStatus, proto::StatusRequest(), soon()).ok());
    auto reply = channel->call(head::kList, proto::ListRequest(), base::current_loop()->deadline(200ms));
    EXPECT_EQ(reply.status().code(), absl::StatusCode::kDeadlineExceeded) << reply.status();
    EXPECT_TRUE(cluster.handlers.stuck_caller_gone.wait(soon()));
  });
}

TEST(Failures, ACancelledFiberEndsItsCall) {
  base::run_in_loop([] {
    ServedCluster cluster;
    auto channel = Channel::local(cluster.socket());
    absl::StatusCode code{};
    {
      base::TaskGroup group;
      group.spawn("caller", [&] { code = channel->call(head::kList, proto::ListRequest(), soon()).status().code(); });
      ASSERT_TRUE(cluster.handlers.stuck_entered.wait(soon()));
    }
    EXPECT_EQ(code, absl::StatusCode::kCancelled);
  });
}

TEST(Failures, DroppingAStreamEndsItOnTheServer) {
  base::run_in_loop([] {
    ServedCluster cluster;
    auto channel = cluster.dial(Role::kNode);
    {
      auto attach = channel->open(head::kAttach);
      EXPECT_TRUE(attach->write(numbered(1), soon()).ok());
      EXPECT_TRUE(attach->read(soon()).ok());
    }
    EXPECT_TRUE(cluster.handlers.attach_ended.wait(soon()));
  });
}

// A handler that waits for ever and an open stream: both are ended, their callers learn it, and it takes no
// longer than told.
TEST(Shutdown, EndsCallsInFlightInTime) {
  base::run_in_loop([] {
    auto* loop = base::current_loop();
    auto cluster = std::make_unique<ServedCluster>();
    auto channel = Channel::local(cluster->socket());
    auto attach = channel->open(head::kAttach);
    ASSERT_TRUE(attach->write(numbered(1), soon()).ok());
    ASSERT_TRUE(attach->read(soon()).ok());
    base::Status stuck;
    base::TaskGroup group;
    group.spawn("caller", [&] { stuck = channel->call(head::kList, proto::ListRequest(), base::kForever).status(); });
    ASSERT_TRUE(cluster->handlers.stuck_entered.wait(soon()));
    EXPECT_EQ(cluster->server.calls(), 2);

    base::TimePoint began = loop->now();
    cluster->server.shutdown(loop->deadline(2s));
    EXPECT_LT(loop->now() - began, 5s);
    EXPECT_EQ(cluster->server.calls(), 0);
    EXPECT_EQ(cluster->handlers.stuck_cancelled, 1);
    EXPECT_TRUE(group.join(soon()));
    EXPECT_EQ(stuck.code(), absl::StatusCode::kUnavailable);
    EXPECT_FALSE(attach->finish(soon()).ok());
  });
}

TEST(Shutdown, ANewServerIsFoundAgainByTheSameChannel) {
  base::run_in_loop([] {
    TemporaryDir dir;
    auto* loop = base::current_loop();
    TestHandlers handlers;
    auto channel = Channel::local(dir.path / "s" / "control.sock");
    for (int life = 0; life < 2; ++life) {
      Server server(*loop, handlers.service, {});
      ASSERT_TRUE(server.start().ok());
      auto port = LocalPort::open(*loop, dir.path / "s" / "control.sock",
                                  [&](base::Fd fd) { server.accept_local(std::move(fd)); });
      ASSERT_TRUE(port.ok()) << port.status();
      base::Status last;
      base::TimePoint limit = soon();
      do {
        last = channel->call(head::kGetStatus, proto::StatusRequest(), limit).status();
      } while (!last.ok() && loop->now() < limit && base::sleep_for(50ms));
      EXPECT_TRUE(last.ok()) << last;
      (*port)->close();
      server.shutdown(loop->deadline(1s));
    }
  });
}

}  // namespace
}  // namespace rayo::rpc
