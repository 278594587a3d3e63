// For the tests of this folder: a cluster's certificates, and a server with one handler of each kind behind a
// TCP port and a unix socket. All of it in a fiber of the current loop.
#pragma once

#include <filesystem>
#include <gtest/gtest.h>
#include <string>

#include "runtime/base/ids.h"
#include "runtime/base/loop/event.h"
#include "runtime/rpc/certificates.h"
#include "runtime/rpc/grpc/client.h"
#include "runtime/rpc/grpc/port.h"
#include "runtime/rpc/grpc/server.h"

namespace rayo::rpc {

using namespace std::chrono_literals;

inline base::TimePoint soon() { return base::current_loop()->deadline(20s); }

struct Certificates {
  Certificates() : cluster(base::random_id<ClusterId>()) {
    auto made = make_authority(cluster, base::system_clock().wall());
    EXPECT_TRUE(made.ok()) << made.status();
    authority = *made;
  }
  TlsIdentity identity(Role role) const {
    RoleName name{role, cluster, role == Role::kHead ? MemberId{} : base::random_id<MemberId>()};
    auto made = issue_identity(authority, name, base::system_clock().wall());
    EXPECT_TRUE(made.ok()) << made.status();
    return *made;
  }
  ClusterId cluster;
  Authority authority;
};

// The service that the tests call; what the handlers saw is kept.
struct TestHandlers {
  Service service;
  Peer last_peer;
  base::Event stuck_entered;
  int stuck_cancelled = 0;
  base::Event stuck_caller_gone;
  base::Event attach_ended;

  TestHandlers() {
    service.on(head::kGetStatus, [this](const proto::StatusRequest&, Call& call) -> base::StatusOr<proto::StatusReply> {
      last_peer = call.peer();
      proto::StatusReply reply;
      reply.set_name("test");
      return reply;
    });
    service.on(head::kWhy, [](const proto::WhyRequest& request, Call&) -> base::StatusOr<proto::WhyReply> {
      return base::failed(absl::StatusCode::kNotFound, base::cat("nothing is named ", request.id()), "try `rayo list`");
    });
    service.on(head::kList, [this](const proto::ListRequest&, Call& call) -> base::StatusOr<proto::ListReply> {
      stuck_entered.set();
      base::Event never;
      if (call.deadline() == base::kForever) {
        never.wait();
        stuck_cancelled += base::fiber_cancelled() ? 1 : 0;
      } else {
        call.gone().wait(soon());
        stuck_caller_gone.set();
      }
      return base::failed(absl::StatusCode::kUnavailable, "shutting down");
    });
    service.on(head::kRelay, [](const proto::RelayRequest& request, Call&) -> base::StatusOr<proto::RelayReply> {
      proto::RelayReply reply;
      reply.mutable_key_value()->set_value(request.key_value().key());
      return reply;
    });
    service.on(head::kBeat, [](MessageStream<proto::BeatRequest, proto::BeatReply>& stream, Call&) -> base::Status {
      while (true) {
        RAYO_ASSIGN_OR_RETURN(auto request, stream.read());
        if (!request) return absl::OkStatus();
        proto::BeatReply reply;
        reply.set_number(request->number());
        RAYO_RETURN_IF_ERROR(stream.write(reply));
      }
    });
    service.on(head::kFetchPackage,
               [](const proto::FetchPackageRequest&,
                  MessageStream<proto::FetchPackageRequest, proto::PackageChunk>& out, Call&) -> base::Status {
                 for (int i = 0; i < 5; ++i) {
                   proto::PackageChunk chunk;
                   chunk.set_offset(i);
                   chunk.set_data(std::string(100'000, static_cast<char>('a' + i)));
                   RAYO_RETURN_IF_ERROR(out.write(chunk));
                 }
                 return absl::OkStatus();
               });
    service.on(
        head::kSendPackage,
        [](MessageStream<proto::PackageChunk, proto::PackageReply>& in, Call&) -> base::StatusOr<proto::PackageReply> {
          proto::PackageReply reply;
          size_t bytes = 0;
          while (true) {
            auto chunk = in.read();
            if (!chunk.ok()) return chunk.status();
            if (!*chunk) break;
            bytes += (*chunk)->data().size();
          }
          reply.set_needed(bytes == 300'000);
          return reply;
        });
    service.on(head::kAttach, [this](MessageStream<proto::NodeUp, proto::NodeDown>& stream, Call&) -> base::Status {
      base::Status result;
      while (true) {
        auto up = stream.read();
        if (!up.ok()) result = up.status();
        if (!up.ok() || !*up) break;
        proto::NodeDown down;
        down.set_request((*up)->request() + 1);
        if (!stream.write(down).ok()) break;
      }
      attach_ended.set();
      return result;
    });
    service.on(head::kStopCluster,
               [](const proto::StopRequest&, MessageStream<proto::StopRequest, proto::StopProgress>& out, Call&) {
                 return out.write(proto::StopProgress());
               });
  }
};

struct TemporaryDir {
  TemporaryDir() {
    char name[] = "/tmp/rayo-grpc-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~TemporaryDir() { std::filesystem::remove_all(path); }
  base::Path path;
};

struct ServedCluster {
  ServedCluster()
      : server(*base::current_loop(), handlers.service,
               {.identity = certificates.identity(Role::kHead), .cluster = certificates.cluster}) {
    base::Status started = server.start();
    EXPECT_TRUE(started.ok()) << started;
    PortHandlers to_server{[this](base::Fd fd) { server.accept_tls(std::move(fd)); },
                           [this](base::Fd fd, const DataHeaderBytes& header) {
                             data_headers.push_back(header);
                             data_sockets.push_back(std::move(fd));
                           }};
    base::Binding binding;
    binding.host = "127.0.0.1";
    auto opened = Port::open(*base::current_loop(), binding, std::move(to_server));
    EXPECT_TRUE(opened.ok()) << opened.status();
    port = std::move(*opened);
    auto local =
        LocalPort::open(*base::current_loop(), socket(), [this](base::Fd fd) { server.accept_local(std::move(fd)); });
    EXPECT_TRUE(local.ok()) << local.status();
    local_port = std::move(*local);
  }
  ~ServedCluster() {
    local_port->close();
    port->close();
    server.shutdown(base::current_loop()->deadline(2s));
  }

  base::Path socket() const { return dir.path / "s" / "control.sock"; }
  std::unique_ptr<Channel> dial(Role as, Role expect = Role::kHead) const {
    return dial(certificates.identity(as), expect);
  }
  std::unique_ptr<Channel> dial(TlsIdentity identity, Role expect = Role::kHead) const {
    return Channel::tls({.addresses = {port->address()}, .identity = std::move(identity), .expect = {expect, {}, {}}});
  }

  TemporaryDir dir;
  Certificates certificates;
  TestHandlers handlers;
  Server server;
  std::unique_ptr<Port> port;
  std::unique_ptr<LocalPort> local_port;
  std::vector<DataHeaderBytes> data_headers;
  std::vector<base::Fd> data_sockets;
};

}  // namespace rayo::rpc
