// What a user loses if these fail: a head that does not answer, forgets what it promised, or cannot be
// stopped. The real process class with its ports, in this process; the raylet is a fake at the other end of
// real TLS.
#include "runtime/head/head_process.h"

#include <boost/json.hpp>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>

#include "runtime/base/address.h"
#include "runtime/base/ids.h"
#include "runtime/base/loop/blocking.h"
#include "runtime/base/loop/socket.h"
#include "runtime/base/package_files.h"
#include "runtime/base/version.h"
#include "runtime/head/key_value_table.h"
#include "runtime/rpc/data_header.h"
#include "runtime/rpc/dial.h"
#include "runtime/rpc/frame.h"
#include "runtime/rpc/grpc/client.h"
#include "runtime/rpc/join.h"
#include "runtime/rpc/proto_ids.h"
#include "runtime/rpc/tls_stream.h"

namespace rayo::head {
namespace {

using namespace std::chrono_literals;
using base::cat;

base::TimePoint soon() { return base::current_loop()->deadline(20s); }

struct Dirs {
  Dirs() {
    char name[] = "/tmp/rayo-head-XXXXXX";
    root = mkdtemp(name);
    std::filesystem::create_directories(root / "session/head");
  }
  ~Dirs() { std::filesystem::remove_all(root); }
  base::HeadSettings settings() const {
    base::HeadSettings out;
    out.session_dir = root / "session";
    out.state_dir = root / "state";
    out.token_file = root / "token";
    out.name = "test";
    out.bind = {.host = "127.0.0.1", .port = 0};
    out.http_port = 0;
    out.local = true;
    return out;
  }
  base::Path root;
};

// A head that serves in a fiber, until the end of the scope.
struct ServedHead {
  explicit ServedHead(const Dirs& dirs) : process(*base::current_loop(), dirs.settings()) {
    ready = process.start();
    EXPECT_TRUE(ready.ok) << ready.error;
    fibers.spawn("serve", [this] {
      process.serve();
      ended.set();
    });
  }
  ~ServedHead() {
    process.ask_stop();
    EXPECT_TRUE(ended.wait(soon()));
  }
  HeadProcess process;
  base::Readiness ready;
  base::Event ended;
  base::TaskGroup fibers;
};

struct FakeRaylet {
  FakeRaylet(const ServedHead& head, const Dirs& dirs) {
    base::WorkThreads thread("join", 1);
    auto token = rpc::Token::parse(base::read_file(dirs.root / "token").value());
    auto address = base::parse_host_port(head.ready.address).value();
    auto joined = base::run_on_thread(thread, [&] {
      return rpc::join(address, *token, {rpc::Role::kNode, rpc::member_id(node), std::string(base::kVersion)},
                       base::deadline_after(base::system_clock().now(), 10s));
    });
    EXPECT_TRUE(joined.ok()) << joined.status();
    channel = rpc::Channel::tls({.addresses = {head.ready.address},
                                 .identity = joined->identity,
                                 .expect = {rpc::Role::kHead, joined->cluster, {}}});
  }

  proto::Registered attach(std::string version = std::string(base::kVersion)) {
    stream = channel->open(rpc::head::kAttach);
    proto::NodeUp up;
    auto* info = up.mutable_register_()->mutable_node();
    rpc::to_proto(node, info->mutable_node());
    info->set_hostname("fake");
    info->set_version(version);
    info->set_address("127.0.0.1:1");
    *info->mutable_total() = rpc::to_proto(base::Resources{{"cpu", base::Amount::of(4)}});
    *info->mutable_free() = info->total();
    up.mutable_register_()->set_incarnation(1);
    EXPECT_TRUE(stream->write(up, soon()).ok());
    auto down = stream->read(soon());
    EXPECT_TRUE(down.ok() && *down) << down.status();
    return down.ok() && *down ? (*down)->registered() : proto::Registered();
  }
  // The next message of that kind.
  template <class F>
  proto::NodeDown next(F has) {
    for (;;) {
      auto down = stream->read(soon());
      if (!down.ok() || !*down) {
        ADD_FAILURE() << down.status();
        return {};
      }
      if ((**down.*has)()) return **down;
    }
  }
  proto::RelayReply relay(proto::RelayRequest request) {
    rpc::to_proto(node, request.mutable_node());
    auto reply = channel->call(rpc::head::kRelay, request, soon());
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? *reply : proto::RelayReply();
  }
  proto::RelayRequest create_request(ActorId actor, const std::string& name) {
    proto::RelayRequest request;
    auto* spec = request.mutable_create_actor()->mutable_spec();
    rpc::to_proto(actor, spec->mutable_actor());
    spec->set_name(name);
    spec->set_namespace_("lab");
    spec->set_class_name("Counter");
    return request;
  }

  NodeId node = base::random_id<NodeId>();
  std::unique_ptr<rpc::Channel> channel;
  std::unique_ptr<rpc::ClientStream<proto::NodeUp, proto::NodeDown>> stream;
};

std::string http_get(const std::string& url, std::string request) {
  auto address = base::parse_host_port(url.substr(7)).value();
  auto fd = rpc::dial(address, soon());
  EXPECT_TRUE(fd.ok()) << fd.status();
  base::Stream stream(*base::current_loop(), std::move(*fd));
  EXPECT_TRUE(stream.write(std::move(request), {}, soon()).ok());
  std::string out;
  std::array<std::byte, 4096> buffer;
  for (;;) {
    auto got = stream.read_some(buffer, soon());
    if (!got.ok() || *got == 0) return out;
    out.append(reinterpret_cast<const char*>(buffer.data()), *got);
  }
}

TEST(HeadProcess, ANodeJoinsAndAnActorLives) {
  base::run_in_loop([] {
    Dirs dirs;
    ServedHead head(dirs);
    FakeRaylet raylet(head, dirs);
    auto registered = raylet.attach();
    EXPECT_FALSE(registered.has_failure()) << registered.failure().text();
    EXPECT_EQ(registered.cluster_name(), "test");
    EXPECT_EQ(registered.data_secret().size(), 32u);
    EXPECT_EQ(registered.nodes_size(), 1);

    ActorId actor{5, 5};
    auto created = raylet.relay(raylet.create_request(actor, "hits"));
    EXPECT_EQ(created.actor().state(), proto::STARTING);
    auto start = raylet.next(&proto::NodeDown::has_start_actor).start_actor();
    EXPECT_EQ(start.spec().name(), "hits");
    proto::NodeUp up;
    *up.mutable_actor() = created.actor();
    up.mutable_actor()->set_state(proto::ALIVE);
    EXPECT_TRUE(raylet.stream->write(up, soon()).ok());
    EXPECT_EQ(raylet.next(&proto::NodeDown::has_actor).actor().state(), proto::ALIVE);

    auto taken = raylet.relay(raylet.create_request({6, 6}, "hits"));
    EXPECT_NE(taken.failure().text().find("'hits' is taken"), std::string::npos);
    proto::RelayRequest find;
    find.mutable_find_actor()->set_name("hits");
    find.mutable_find_actor()->set_namespace_("lab");
    EXPECT_EQ(rpc::from_proto<ActorId>(raylet.relay(find).actor().actor()), actor);

    auto local = rpc::Channel::local(dirs.root / "session/head/control.sock");
    auto status = local->call(rpc::head::kGetStatus, proto::StatusRequest(), soon());
    ASSERT_TRUE(status.ok()) << status.status();
    EXPECT_EQ(status->actors_alive(), 1);
    EXPECT_EQ(status->nodes(0).state(), "alive");
    EXPECT_EQ(status->named_actors(0).name(), "hits");
    EXPECT_EQ(status->address(), head.ready.address);
  });
}

TEST(HeadProcess, WhatWasPromisedIsThereAfterAnEnd) {
  base::run_in_loop([] {
    Dirs dirs;
    std::string cluster;
    for (int life = 1; life <= 2; ++life) {
      ServedHead head(dirs);
      if (life == 1) cluster = head.ready.cluster;
      EXPECT_EQ(head.ready.cluster, cluster);
      FakeRaylet raylet(head, dirs);
      auto registered = raylet.attach();
      EXPECT_EQ(registered.epoch(), static_cast<uint64_t>(life));
      proto::RelayRequest request;
      auto* key_value = request.mutable_key_value();
      key_value->set_key("answer");
      if (life == 1) {
        key_value->set_op(proto::KeyValue::PUT);
        key_value->set_value("42");
        EXPECT_FALSE(raylet.relay(request).key_value().found());
        EXPECT_TRUE(raylet.relay(request).key_value().found());  // twice: nothing is overwritten
      } else {
        EXPECT_EQ(raylet.relay(request).key_value().value(), "42");
      }
    }
  });
}

// Nobody could delete it: the namespace ends with its job.
TEST(HeadProcess, AJobThatHasEndedPutsNothing) {
  base::run_in_loop([] {
    Dirs dirs;
    ServedHead head(dirs);
    FakeRaylet raylet(head, dirs);
    raylet.attach();
    const JobId job{3, 3};
    for (bool ended : {false, true}) {
      proto::NodeUp up;
      rpc::to_proto(job, up.mutable_job()->mutable_job());
      up.mutable_job()->set_ended(ended);
      EXPECT_TRUE(raylet.stream->write(up, soon()).ok());
      raylet.next(&proto::NodeDown::has_job);
      proto::RelayRequest request;
      rpc::to_proto(job, request.mutable_job());
      auto* put = request.mutable_key_value();
      put->set_op(proto::KeyValue::PUT);
      put->set_namespace_(job_namespace(job));
      put->set_key("answer");
      put->set_value("42");
      EXPECT_EQ(raylet.relay(request).key_value().has_failure(), ended);
      put->set_op(proto::KeyValue::GET);
      EXPECT_EQ(raylet.relay(request).key_value().found(), !ended);
    }
  });
}

TEST(HeadProcess, AnotherVersionIsRefusedWithBothNamed) {
  base::run_in_loop([] {
    Dirs dirs;
    ServedHead head(dirs);
    FakeRaylet raylet(head, dirs);
    auto registered = raylet.attach("9.9.0");
    EXPECT_NE(registered.failure().text().find("9.9.0"), std::string::npos);
    EXPECT_NE(registered.failure().text().find(base::kVersion), std::string::npos);
  });
}

TEST(HeadProcess, ANodeActsInItsOwnNameAlone) {
  base::run_in_loop([] {
    Dirs dirs;
    ServedHead head(dirs);
    FakeRaylet honest(head, dirs), other(head, dirs);
    honest.attach();
    other.attach();
    auto refused = [&](const auto& reply) {
      EXPECT_EQ(reply.status().code(), absl::StatusCode::kPermissionDenied) << reply.status();
      EXPECT_NE(base::message(reply.status()).find(honest.node.hex()), std::string::npos) << reply.status();
    };
    proto::RelayRequest relay;
    rpc::to_proto(honest.node, relay.mutable_node());
    relay.mutable_list_nodes();
    refused(other.channel->call(rpc::head::kRelay, relay, soon()));
    EXPECT_EQ(honest.relay(relay).nodes().nodes_size(), 2);
    proto::PlaceLeasesRequest leases;
    rpc::to_proto(honest.node, leases.mutable_node());
    refused(other.channel->call(rpc::head::kPlaceLeases, leases, soon()));
    proto::BeatRequest beat;
    rpc::to_proto(honest.node, beat.mutable_node());
    beat.set_incarnation(1);
    auto forged = other.channel->open(rpc::head::kBeat);
    ASSERT_TRUE(forged->write(beat, soon()).ok());
    refused(forged->read(soon()));
    auto beats = honest.channel->open(rpc::head::kBeat);
    ASSERT_TRUE(beats->write(beat, soon()).ok());
    EXPECT_TRUE((*beats->read(soon()))->known());
    std::swap(honest.node, other.node);
    EXPECT_NE(other.attach().failure().text().find("may not act for"), std::string::npos);
  });
}

TEST(HeadProcess, PackagesAreKeptByTheirContent) {
  base::run_in_loop([] {
    Dirs dirs;
    ServedHead head(dirs);
    FakeRaylet raylet(head, dirs);
    std::string program(3 * base::kPackagePieceBytes + 17, 'p');
    auto file = dirs.root / "program";
    ASSERT_TRUE(base::write_private_file(file, program).ok());
    base::Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    auto id = base::package_hash(fd.get()).value();
    proto::OfferPackage offer;
    rpc::to_proto(id, offer.mutable_package());
    EXPECT_TRUE(raylet.channel->call(rpc::head::kOfferPackageToHead, offer, soon())->needed());
    auto send = [&](std::string data) {
      auto up = raylet.channel->open(rpc::head::kSendPackage, soon());
      proto::PackageChunk chunk;
      *chunk.mutable_package() = offer.package();
      chunk.set_data(std::move(data));
      chunk.set_last(true);
      EXPECT_TRUE(up->write(chunk, soon()).ok());
      return rpc::finish_with_reply(*up, soon());
    };
    EXPECT_FALSE(send("something else").ok());
    EXPECT_TRUE(raylet.channel->call(rpc::head::kOfferPackageToHead, offer, soon())->needed());
    EXPECT_TRUE(send(program).ok());
    EXPECT_FALSE(raylet.channel->call(rpc::head::kOfferPackageToHead, offer, soon())->needed());
    proto::FetchPackageRequest fetch;
    *fetch.mutable_package() = offer.package();
    auto down = raylet.channel->open(rpc::head::kFetchPackage, fetch, soon());
    ASSERT_TRUE(down.ok());
    std::string got;
    for (;;) {
      auto chunk = (*down)->read(soon());
      if (!chunk.ok() || !*chunk) break;
      got += (*chunk)->data();
    }
    EXPECT_EQ(got, program);
  });
}

TEST(HeadProcess, HttpAnswersThisMachineAlone) {
  base::run_in_loop([] {
    Dirs dirs;
    ServedHead head(dirs);
    auto get = [&](const std::string& path, const std::string& host) {
      return http_get(head.ready.http, cat("GET ", path, " HTTP/1.1\r\nHost: ", host, "\r\n\r\n"));
    };
    EXPECT_NE(get("/healthz", "localhost").find("200"), std::string::npos);
    auto status = get("/api/status", head.ready.http.substr(7));
    auto document = boost::json::parse(status.substr(status.find("\r\n\r\n") + 4));
    EXPECT_EQ(document.at("schema").as_int64(), 1);
    EXPECT_EQ(document.at("cluster").at("id").as_string(), head.ready.cluster.c_str());
    EXPECT_NE(get("/healthz", "evil.example").find("403"), std::string::npos);
    EXPECT_NE(get("/nothing", "localhost").find("404"), std::string::npos);
    EXPECT_NE(http_get(head.ready.http, "hello\r\n\r\n").find("400"), std::string::npos);
    std::string endless = "GET / HTTP/1.1\r\nX: ";
    endless += std::string(64 * 1024, 'a');
    EXPECT_EQ(http_get(head.ready.http, endless).find("200"), std::string::npos);
  });
}

TEST(HeadProcess, StopTellsTheNodesAndNamesTheDeafOnes) {
  base::run_in_loop([] {
    Dirs dirs;
    ServedHead head(dirs);
    FakeRaylet good(head, dirs), deaf(head, dirs);
    good.attach();
    deaf.attach();
    auto local = rpc::Channel::local(dirs.root / "session/head/control.sock");
    proto::StopRequest request;
    request.set_grace_ms(500);
    auto stop = local->open(rpc::head::kStopCluster, request, soon());
    ASSERT_TRUE(stop.ok());
    EXPECT_TRUE(good.next(&proto::NodeDown::has_leave_now).has_leave_now());
    proto::NodeUp leave;
    leave.mutable_leave()->set_reason("told to");
    EXPECT_TRUE(good.stream->write(leave, soon()).ok());
    proto::StopProgress last;
    while (!last.last()) {
      auto progress = (*stop)->read(soon());
      ASSERT_TRUE(progress.ok() && *progress) << progress.status();
      last = **progress;
    }
    ASSERT_EQ(last.unreachable_size(), 1);
    EXPECT_TRUE(head.ended.wait(soon()));
  });
}

// What a head says to a driver on another machine; nothing where the connection was closed without a word.
std::optional<proto::HelloReply> driver_hello(const std::string& head, const rpc::Secret& data_secret,
                                              const std::string& version) {
  const rpc::LinkKeys keys = rpc::LinkKeys::of_data(data_secret);
  const rpc::DataHeader header = rpc::make_data_header(rpc::LinkKind::kDriver, true, {}, keys);
  const rpc::DataHeaderBytes opening = rpc::encode(header);
  const auto deadline = base::deadline_after(base::system_clock().now(), 10s);
  auto socket = rpc::dial(base::parse_host_port(head).value(), deadline);
  EXPECT_TRUE(socket.ok()) << socket.status();
  EXPECT_TRUE(
      rpc::send_all(socket->get(), {reinterpret_cast<const char*>(opening.data()), opening.size()}, deadline).ok());
  rpc::TlsStream stream(std::move(*socket), rpc::TlsPump::client(keys.tls_key(header.nonce)), deadline);
  proto::ToRaylet message;
  message.mutable_hello()->set_kind(proto::DRIVER);
  message.mutable_hello()->set_version(version);
  rpc::FrameHeader frame;
  frame.call_id = 1;
  frame.length = static_cast<uint32_t>(message.ByteSizeLong());
  if (!stream
           .write(
               cat(std::string_view(reinterpret_cast<const char*>(&frame), sizeof frame), message.SerializeAsString()))
           .ok())
    return std::nullopt;
  auto first = stream.read(sizeof frame);
  if (!first.ok()) return std::nullopt;
  std::memcpy(&frame, first->data(), sizeof frame);
  proto::ToWorker answer;
  EXPECT_TRUE(answer.ParseFromString(stream.read(frame.length).value()));
  EXPECT_EQ(frame.call_id, 1u);
  return answer.hello_reply();
}

TEST(HeadProcess, ADriverOfAnotherMachineIsToldTheNodes) {
  base::run_in_loop([] {
    Dirs dirs;
    ServedHead head(dirs);
    base::WorkThreads thread("driver", 1);
    const rpc::Secret secret = rpc::Token::parse(base::read_file(dirs.root / "token").value())->data_secret();
    const auto ask = [&](const rpc::Secret& key, std::string version = std::string(base::kVersion)) {
      return base::run_on_thread(thread, [&] { return driver_hello(head.ready.address, key, version); });
    };
    EXPECT_NE(ask(secret)->failure().text().find("no node"), std::string::npos);
    FakeRaylet first(head, dirs), second(head, dirs);
    first.attach();
    second.attach();
    const auto told = ask(secret);
    EXPECT_FALSE(told->has_failure()) << told->failure().text();
    EXPECT_FALSE(told->has_node());
    EXPECT_EQ(told->address(), "127.0.0.1:1,127.0.0.1:1");
    EXPECT_TRUE(told->data_secret().empty());
    EXPECT_NE(ask(secret, "9.9.0")->failure().text().find("9.9.0"), std::string::npos);
    EXPECT_FALSE(ask(rpc::random_secret()));
  });
}

TEST(HeadProcess, AStateThatAnotherHeadUsesIsRefused) {
  base::run_in_loop([] {
    Dirs dirs;
    ServedHead head(dirs);
    HeadProcess second(*base::current_loop(), dirs.settings());
    auto ready = second.start();
    EXPECT_FALSE(ready.ok);
    EXPECT_EQ(ready.exit_code, 1);
    EXPECT_NE(ready.next_step.find("another head"), std::string::npos) << ready.error;
  });
}

}  // namespace
}  // namespace rayo::head
