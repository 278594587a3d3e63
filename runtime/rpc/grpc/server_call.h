// Inside of this folder: one call on the server. gRPC's reactions come on its threads and only post to the
// loop; the fiber that serves the call starts reads and writes, waits for their ends, and owns the object: it
// lives until gRPC's OnDone.
#pragma once

#include <atomic>
#include <grpcpp/grpcpp.h>
#include <optional>
#include <string>

#include "runtime/base/loop/blocking.h"
#include "runtime/base/loop/event.h"
#include "runtime/rpc/grpc/operation.h"
#include "runtime/rpc/grpc/server.h"
#include "runtime/rpc/grpc/wire.h"

namespace rayo::rpc {

class ServerCall final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>, public ByteStream {
 public:
  ServerCall(base::Loop& loop, grpc::CallbackServerContext& context);

  // ByteStream
  base::StatusOr<std::optional<std::string>> read(base::TimePoint deadline) override;
  base::Status write(std::string message, base::TimePoint deadline) override;
  base::Status write_last(std::string message) override;
  base::Event& gone() override { return gone_; }

  const std::optional<Peer>& peer() const { return peer_; }
  base::TimePoint deadline() const { return deadline_; }
  // Ends the call and waits until gRPC has let go of it.
  void finish(const base::Status& status);

  // grpc::ServerBidiReactor
  void OnReadDone(bool ok) override { read_.end(ok); }
  void OnWriteDone(bool ok) override { write_.end(ok); }
  void OnCancel() override;
  void OnDone() override;

 private:
  base::Loop& loop_;
  grpc::CallbackServerContext& context_;
  std::optional<Peer> peer_;
  base::TimePoint deadline_;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
  std::optional<grpc::ByteBuffer> last_;
  Operation read_;
  Operation write_;
  base::Semaphore writer_{1};
  bool reading_ = false;  // a read is with gRPC, or ended and not yet fetched
  bool read_ended_ = false;
  base::Event gone_;
  base::Event done_;
};

struct Server::State {
  class Endpoint;
  State(base::Loop& owner, const rpc::Service& service, ServerOptions given);
  ~State();
  base::Status start();
  void accept(grpc::experimental::ExternalConnectionAcceptor* acceptor, base::Fd fd);
  void serve(const rpc::Service::Method& method, ServerCall& call);
  void shutdown(base::TimePoint deadline);

  base::Loop& loop;
  const std::vector<rpc::Service::Method> methods;
  ServerOptions options;
  base::WorkThreads handshakes;
  std::unique_ptr<Endpoint> endpoint;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> tls;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> local;
  std::unique_ptr<grpc::Server> server;
  base::TaskGroup handlers;
  std::atomic<bool> closing{false};
};

}  // namespace rayo::rpc
