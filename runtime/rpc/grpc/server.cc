#include "runtime/rpc/grpc/server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <unordered_map>

#include "runtime/base/check.h"
#include "runtime/base/log.h"
#include "runtime/base/loop/blocking.h"
#include "runtime/rpc/grpc/server_call.h"

namespace rayo::rpc {
namespace {

using absl::StatusCode;

constexpr int kHandshakeLimitMs = 2000;  // silence, drip, TLS without preface, preface without SETTINGS

// Refuses by path and role, before the message is parsed; on gRPC's threads.
class AccessCheck final : public grpc::AuthMetadataProcessor {
 public:
  AccessCheck(const std::vector<Service::Method>& methods, ClusterId cluster) : cluster_(cluster) {
    for (const auto& method : methods) access_.emplace(method.path, method.access);
  }
  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context, OutputMetadata*,
                       OutputMetadata*) override {
    auto peer = peer_of(*context);
    if (!peer || peer->local || (cluster_ && peer->name.cluster != cluster_))
      return {grpc::StatusCode::UNAUTHENTICATED, "the certificate names no member of this cluster"};
    auto path = metadata.find(":path");
    auto access =
        path == metadata.end() ? access_.end() : access_.find(std::string(path->second.data(), path->second.size()));
    if (access == access_.end()) return grpc::Status::OK;  // answered UNIMPLEMENTED
    if (may_call(*peer, access->second)) return grpc::Status::OK;
    return {grpc::StatusCode::PERMISSION_DENIED, base::cat(peer->text(), " may not call this")};
  }

 private:
  ClusterId cluster_;
  std::unordered_map<std::string, Access> access_;
};

std::shared_ptr<grpc::ServerCredentials> tls_credentials(const TlsIdentity& identity) {
  auto provider = std::make_shared<grpc::experimental::StaticDataCertificateProvider>(
      identity.ca_pem,
      std::vector<grpc::experimental::IdentityKeyCertPair>{{identity.key_pem, identity.certificate_pem}});
  grpc::experimental::TlsServerCredentialsOptions options(provider);
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  // Anything less lets a stranger reach HTTP/2 and fill the memory.
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace

// Its methods all have the shape of a stream of bytes each way: what a handler makes of it is Service::on's
// affair.
class Server::State::Endpoint final : public grpc::Service {
 public:
  Endpoint(State& server, const std::vector<rpc::Service::Method>& methods) {
    int index = 0;
    for (const auto& method : methods) {
      AddMethod(new grpc::internal::RpcServiceMethod(method.path.c_str(), grpc::internal::RpcMethod::BIDI_STREAMING,
                                                     nullptr));
      auto make = [&server, &method](grpc::CallbackServerContext* context) {
        auto* call = new ServerCall(server.loop, *context);
        server.loop.defer([&server, &method, call] { server.serve(method, *call); });
        return call;
      };
      MarkMethodCallback(index++, new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>(make));
    }
  }
};

Server::State::State(base::Loop& owner, const rpc::Service& service, ServerOptions given)
    : loop(owner), methods(service.methods()), options(std::move(given)), handshakes("rayo-handshake", 1) {}
Server::State::~State() = default;

base::Status Server::State::start() {
  prepare_grpc();
  endpoint = std::make_unique<Endpoint>(*this, methods);
  grpc::ServerBuilder builder;
  builder.RegisterService(endpoint.get());
  builder.SetMaxReceiveMessageSize(options.max_message_bytes);
  builder.SetMaxSendMessageSize(options.max_message_bytes);
  builder.AddChannelArgument("grpc.server_handshake_timeout_ms", kHandshakeLimitMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 500);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kWindowBytes);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  using Type = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  if (options.identity) {
    auto credentials = tls_credentials(*options.identity);
    credentials->SetAuthMetadataProcessor(std::make_shared<AccessCheck>(methods, options.cluster));
    tls = builder.experimental().AddExternalConnectionAcceptor(Type::FROM_FD, credentials);
  }
  local = builder.experimental().AddExternalConnectionAcceptor(Type::FROM_FD, grpc::InsecureServerCredentials());
  server = builder.BuildAndStart();
  if (!server) return base::failed(StatusCode::kInternal, "gRPC does not start", "the log at RAYO_LOG=debug tells");
  return absl::OkStatus();
}

// The first flight of the handshake runs on the calling thread (0.6-4 ms): never on the loop.
void Server::State::accept(grpc::experimental::ExternalConnectionAcceptor* acceptor, base::Fd fd) {
  if (acceptor == nullptr || closing) return;
  handshakes.run([this, acceptor, fd = std::move(fd)]() mutable {
    if (closing) return;  // gRPC would leave the descriptor open
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = fd.release();
    acceptor->HandleNewConnection(&connection);
  });
}

void Server::State::serve(const rpc::Service::Method& method, ServerCall& call) {
  handlers.spawn(method.path, [this, &method, owned = std::unique_ptr<ServerCall>(&call)] {
    auto peer = owned->peer();
    if (!peer || closing) {
      owned->finish(base::failed(StatusCode::kUnavailable, "shutting down"));
      return;
    }
    Call info(*peer, owned->deadline(), owned->gone());
    base::Status result;
    try {
      result = method.handler(*owned, info);
    } catch (const std::exception& error) {
      base::log().error("{} of {} threw: {}", method.path, info.peer().text(), error.what());
      result = base::failed(StatusCode::kInternal, base::cat("internal error: ", error.what()));
    }
    owned->finish(result);
  });
}

void Server::State::shutdown(base::TimePoint deadline) {
  if (!server) return;
  closing = true;
  handlers.cancel();
  // Shutdown waits for the calls, whose ends come through the loop: so never on the loop's own thread.
  base::run_on_thread(handshakes, [&] { server->Shutdown(to_wall(deadline)); });
  {
    base::Shield shield;
    handlers.join();
  }
  base::run_on_thread(handshakes, [&] {
    server.reset();
    tls.reset();
    local.reset();
  });
}

Server::Server(base::Loop& loop, const Service& service, ServerOptions options)
    : state_(std::make_shared<State>(loop, service, std::move(options))) {}
Server::~Server() { RAYO_CHECK(!state_->server, "shutdown() comes before the end of a server"); }

base::Status Server::start() { return state_->start(); }
void Server::accept_tls(base::Fd fd) { state_->accept(state_->tls.get(), std::move(fd)); }
void Server::accept_local(base::Fd fd) { state_->accept(state_->local.get(), std::move(fd)); }
void Server::shutdown(base::TimePoint deadline) { state_->shutdown(deadline); }
int Server::calls() const { return state_->handlers.size(); }

}  // namespace rayo::rpc
