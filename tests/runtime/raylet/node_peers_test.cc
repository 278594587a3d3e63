// If this fails: what a process, a driver or another machine says to a raylet stops it, or is believed of somebody else.
#include <limits>
#include <poll.h>

#include "runtime/base/open_files.h"
#include "runtime/base/text.h"
#include "runtime/rpc/data_header.h"
#include "runtime/rpc/dial.h"
#include "runtime/rpc/grpc/client.h"
#include "runtime/rpc/grpc/methods.h"
#include "runtime/rpc/proto_ids.h"
#include "tests/runtime/raylet/node_fixture.h"

namespace rayo::raylet {
namespace {

TEST_F(NodeTest, SizesThatCannotBeAreRefusedAndTheNodeGoesOn) {
  run([this] {
    connect_driver();
    const uint64_t own = base::short_id(rpc::from_proto<NodeId>(head_->registered.node().node()));
    uint64_t counter = 0;
    auto create = [&](int64_t size) {
      proto::ToRaylet message;
      const ObjectId object{own, base::short_id(driver_->id), ++counter};
      *message.mutable_create_object()->mutable_object() = rpc::to_proto(object);
      message.mutable_create_object()->set_size_bytes(size);
      driver_->send(20, message);
      auto answer = await([](const proto::ToWorker& reply) { return reply.has_object_space(); });
      return answer ? answer->message.object_space() : proto::ObjectSpace();
    };
    const int64_t first = create(4096).offset_bytes();
    for (int64_t size : {int64_t{-5}, std::numeric_limits<int64_t>::max()})
      EXPECT_EQ(create(size).failure().kind(), proto::OUT_OF_MEMORY_ERROR) << size;
    auto next = create(4096);
    EXPECT_FALSE(next.has_failure());
    EXPECT_EQ(next.offset_bytes(), first + 4096);
  });
}

TEST_F(NodeTest, ADriverOfAnotherVersionIsToldSo) {
  run([this] {
    base::run_on_thread(thread_, [&] {
      auto socket = base::connect_unix(base::NodeFiles{settings_.node_dir}.raylet_socket());
      ASSERT_TRUE(socket.ok());
      FakeProcess other(std::move(*socket), base::random_id<ProcessId>(), proto::DRIVER);
      proto::ToRaylet hello;
      hello.mutable_hello()->set_version("9.9.9");
      hello.mutable_hello()->set_kind(proto::DRIVER);
      other.send(1, hello);
      auto reply = other.receive();
      ASSERT_TRUE(reply);
      EXPECT_NE(reply->message.hello_reply().failure().text().find("9.9.9"), std::string::npos);
      EXPECT_FALSE(other.receive());
    });
  });
}

// Else a program that is started twice at once on a machine without a node runs neither time, and what the one raylet writes to
// may be what it has freed for the other.
TEST_F(NodeTest, TwoDriversBringOneProgramAtTheSameTime) {
  run([this] {
    base::run_on_thread(thread_, [&] {
      const base::Path raylet = base::NodeFiles{settings_.node_dir}.raylet_socket();
      const std::string halves[] = {std::string(1 << 20, 'a'), std::string(1 << 20, 'b')};
      const base::Path file = folder_ / "program";
      ASSERT_TRUE(base::write_private_file(file, halves[0] + halves[1]).ok());
      const base::Fd program(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
      const PackageId package = *base::package_hash(program.get());
      std::vector<std::unique_ptr<FakeProcess>> drivers;
      for (int i = 0; i < 3; ++i) {
        auto socket = base::connect_unix(raylet);
        ASSERT_TRUE(socket.ok());
        auto driver = std::make_unique<FakeProcess>(std::move(*socket), base::random_id<ProcessId>(), proto::DRIVER);
        ASSERT_TRUE(driver->hello());
        drivers.push_back(std::move(driver));
      }
      auto bring = [&](FakeProcess& driver, int half) {
        proto::ToRaylet chunk;
        rpc::to_proto(package, chunk.mutable_package_chunk()->mutable_package());
        chunk.mutable_package_chunk()->set_offset(half << 20);
        chunk.mutable_package_chunk()->set_data(halves[half]);
        chunk.mutable_package_chunk()->set_last(half == 1);
        driver.send(static_cast<uint64_t>(half) + 3, chunk);
        auto reply = driver.receive();
        ASSERT_TRUE(reply && reply->message.has_package_reply());
        EXPECT_FALSE(reply->message.package_reply().has_failure()) << reply->message.package_reply().failure().text();
        EXPECT_EQ(reply->message.package_reply().needed(), half == 0);
      };
      for (auto& driver : drivers) bring(*driver, 0);
      drivers.pop_back();  // one goes before it is done
      for (auto& driver : drivers) bring(*driver, 1);
    });
    const base::Path packages = settings_.node_dir / "packages";
    const auto left = [&] {
      return std::distance(std::filesystem::directory_iterator(packages), std::filesystem::directory_iterator());
    };
    for (auto limit = loop_->deadline(10s); left() != 1 && loop_->now() < limit;) base::sleep_for(5ms);
    EXPECT_EQ(left(), 1) << "of the driver that went something stays";
  });
}

// Else any node could make callers give up calls to healthy processes of another.
TEST_F(NodeTest, ADeathIsBelievedOnTheWordOfTheProcessesOwnNode) {
  run([this] {
    auto home = base::random_id<NodeId>(), liar = base::random_id<NodeId>();
    auto callee = base::random_id<ProcessId>();
    proto::NodeDown joined;
    rpc::to_proto(home, joined.mutable_node()->mutable_node());
    joined.mutable_node()->set_state("alive");
    joined.mutable_node()->set_address("127.0.0.1:1");
    head_->send(joined);
    connect_driver();
    auto link = [&]() {
      base::run_on_thread(thread_, [&] {
        proto::ToRaylet connect;
        rpc::to_proto(home, connect.mutable_connect()->mutable_peer()->mutable_node());
        rpc::to_proto(callee, connect.mutable_connect()->mutable_peer()->mutable_process());
        driver_->send(20, connect);
      });
      auto answer = await([](const proto::ToWorker& message) { return message.has_peer_link(); });
      return answer && answer->message.peer_link().peer().host_port() == "127.0.0.1:1";
    };
    for (auto limit = loop_->deadline(10s); !link() && loop_->now() < limit;) base::sleep_for(5ms);  // the news comes
    for (NodeId from : {liar, home}) {
      proto::NodeDown down;
      rpc::to_proto(from, down.mutable_worker_died()->mutable_node());
      rpc::to_proto(callee, down.mutable_worker_died()->mutable_process());
      down.mutable_worker_died()->mutable_death()->set_text(from == home ? "signal 9" : "a lie");
      head_->send(down);
    }
    auto told = await([](const proto::ToWorker& message) { return message.has_peer_gone(); });
    ASSERT_TRUE(told);
    EXPECT_EQ(told->message.peer_gone().death().text(), "signal 9");
  });
}

// Else 64 bytes that were seen on their way once are enough, sent again and again, to keep a node from its objects.
TEST_F(NodeTest, ADataHeaderIsTakenOnce) {
  run([this] {
    connect_driver();
    base::run_on_thread(thread_, [&] {
      for (auto kind : {rpc::LinkKind::kData, rpc::LinkKind::kCall, rpc::LinkKind::kDriver}) {
        auto header = rpc::encode(rpc::make_data_header(kind, true, rpc::id_bytes(driver_->id), data_keys()));
        base::Fd first = dial(header), again = dial(header);
        EXPECT_TRUE(closed(again, 1s)) << "kind " << static_cast<int>(kind);
        EXPECT_FALSE(closed(first, 0s)) << "kind " << static_cast<int>(kind);
      }
    });
  });
}

TEST_F(NodeTest, AHandshakeThatDripsHoldsNoTransfer) {
  run([this] {
    base::run_on_thread(thread_, [&] {
      base::Fd slow = dial(rpc::encode(rpc::make_data_header(rpc::LinkKind::kData, true, {}, data_keys())));
      const char record[] = {0x16, 3, 1, 0x40, 0};  // of TLS, 16 KiB long, which never comes whole
      ASSERT_EQ(::send(slow.get(), record, sizeof record, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof record));
      const auto end = loop_->deadline(10 * rpc::kHandshakeLimit);
      bool cut = false;
      while (!(cut = closed(slow, 100ms)) && loop_->now() < end) (void)::send(slow.get(), "x", 1, MSG_NOSIGNAL);
      EXPECT_TRUE(cut);
    });
  });
}

// Else a raylet that has as many files open as it may ends the connections of processes that did nothing, and a driver's
// job with its own.
TEST_F(NodeTest, WhereNoDescriptorIsLeftOneLinkIsRefusedAndNobodyCutOff) {
  run([this] {
    connect_driver();
    base::run_on_thread(thread_, [&] {
      auto socket = base::connect_unix(base::NodeFiles{settings_.node_dir}.raylet_socket());
      ASSERT_TRUE(socket.ok());
      FakeProcess other(std::move(*socket), base::random_id<ProcessId>(), proto::DRIVER);
      ASSERT_TRUE(other.hello());
      proto::ToRaylet connect;
      rpc::to_proto(other.id, connect.mutable_connect()->mutable_peer()->mutable_process());
      const rlimit before = base::open_files();
      bool linked = false;
      for (rlim_t room = 0; !linked; ++room) {
        const int lowest = ::dup(driver_->fd());
        ::close(lowest);
        rlimit tight = before;
        tight.rlim_cur = static_cast<rlim_t>(lowest) + room;  // and what is free below
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
        driver_->send(20, connect);
        auto came = rpc::wait_fd(driver_->fd(), POLLIN, loop_->deadline(10s));
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
        ASSERT_TRUE(came.ok() && *came);
        auto answer = driver_->receive();
        ASSERT_TRUE(answer) << "the raylet closed the driver's connection with room for " << room;
        ASSERT_TRUE(answer->message.has_peer_link());
        linked = answer->message.peer_link().ring();
        const auto& failure = answer->message.peer_link().failure();
        EXPECT_EQ(failure.text().find(base::cat(tight.rlim_cur)) != std::string::npos, !linked) << failure.text();
        EXPECT_EQ(failure.next_step().empty(), linked);
      }
      auto link = other.receive();
      ASSERT_TRUE(link && link->message.peer_link().ring()) << "the other side was cut off";
      EXPECT_EQ(link->fds.size(), 4u);
    });
  });
}

// Else one node could hold, publish and drop objects for another, whose holds then mean nothing.
TEST_F(NodeTest, ANodeIsAnsweredInItsOwnNameAlone) {
  run([this] {
    auto node = base::random_id<NodeId>(), honest = base::random_id<NodeId>();
    auto identity = head_->identity_of(node);
    ASSERT_TRUE(identity.ok()) << identity.status();
    auto channel = rpc::Channel::tls({.addresses = {head_->registered.node().address()},
                                      .identity = *identity,
                                      .expect = {rpc::Role::kNode, head_->cluster, {}}});
    auto refused = [&](const auto& method, auto request) {
      rpc::to_proto(honest, request.mutable_node());
      auto reply = channel->call(method, request, loop_->deadline(5s));
      EXPECT_EQ(reply.status().code(), absl::StatusCode::kPermissionDenied) << reply.status();
      EXPECT_NE(base::message(reply.status()).find(honest.hex()), std::string::npos) << reply.status();
    };
    refused(rpc::raylet::kAskObject, proto::AskObjectRequest());
    refused(rpc::raylet::kHoldObjects, proto::HoldObjectsRequest());
    refused(rpc::raylet::kDropCopies, proto::DropCopiesRequest());
    proto::HoldObjectsRequest hold;
    rpc::to_proto(node, hold.mutable_node());
    hold.set_number(1);
    auto held = channel->call(rpc::raylet::kHoldObjects, hold, loop_->deadline(5s));
    EXPECT_TRUE(held.ok() && !held->has_failure()) << held.status();
  });
}

}  // namespace
}  // namespace rayo::raylet
