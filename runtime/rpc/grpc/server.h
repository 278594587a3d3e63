// A gRPC server whose methods are fibers of a loop.
//
//   rpc::Service service;
//   service.on(rpc::head::kGetStatus, [&](const proto::StatusRequest& request, rpc::Call& call) {
//     return status(request, call.peer());     // base::StatusOr<proto::StatusReply>
//   });
//   service.on(rpc::head::kAttach, [&](rpc::MessageStream<proto::NodeUp, proto::NodeDown>& stream,
//                                      rpc::Call& call) { return attach(stream, call.peer()); });
//   rpc::Server server(loop, service, {.identity = identity, .cluster = id});
//   RAYO_RETURN_IF_ERROR(server.start());
//   server.accept_tls(std::move(fd));          // from rpc::Port
//   server.shutdown(loop.deadline(2s));        // in a fiber
//
// It listens nowhere itself: sockets come from rpc::Port and rpc::LocalPort. Who may call what is in
// methods.h and is decided from the certificate's role before the message is parsed. A handler's error goes
// to the caller with its next step.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/fd.h"
#include "runtime/base/loop/loop.h"
#include "runtime/rpc/grpc/message_stream.h"
#include "runtime/rpc/grpc/methods.h"
#include "runtime/rpc/grpc/peer.h"
#include "runtime/rpc/identity.h"

namespace rayo::rpc {

// The call that a handler serves; valid until it returns.
class Call {
 public:
  Call(Peer peer, base::TimePoint deadline, base::Event& gone)
      : peer_(std::move(peer)), deadline_(deadline), gone_(gone) {}
  const Peer& peer() const { return peer_; }
  // The caller's; kForever where it gave none.
  base::TimePoint deadline() const { return deadline_; }
  // Set when the caller has cancelled or is gone. The handler's fiber is not cancelled by it: a long wait
  // looks here.
  base::Event& gone() { return gone_; }

 private:
  Peer peer_;
  base::TimePoint deadline_;
  base::Event& gone_;
};

template <class Message>
using Writer = MessageStream<Message, Message>;  // of a server-streaming method; only write() makes sense

// Handlers by method, before the server starts.
class Service {
 public:
  using Handler = std::function<base::Status(ByteStream&, Call&)>;
  struct Method {
    std::string path;
    Access access;
    Handler handler;
  };

  // handler: (const Request&, Call&) -> StatusOr<Response>
  template <class Request, class Response, class F>
  void on(const UnaryMethod<Request, Response>& method, F handler) {
    add(method.path, method.access, [handler = std::move(handler)](ByteStream& bytes, Call& call) mutable {
      MessageStream<Request, Response> stream(bytes);
      auto request = read_one(stream, call);
      if (!request.ok()) return request.status();
      base::StatusOr<Response> response = handler(*request, call);
      return response.ok() ? stream.write_last(*response) : response.status();
    });
  }
  // handler: (const Request&, MessageStream<Request, Response>& writer, Call&) -> Status
  template <class Request, class Response, class F>
  void on(const ServerStreamMethod<Request, Response>& method, F handler) {
    add(method.path, method.access,
        [handler = std::move(handler)](ByteStream& bytes, Call& call) mutable -> base::Status {
          MessageStream<Request, Response> stream(bytes);
          auto request = read_one(stream, call);
          if (!request.ok()) return request.status();
          return handler(*request, stream, call);
        });
  }
  // handler: (MessageStream<Request, Response>& reader, Call&) -> StatusOr<Response>
  template <class Request, class Response, class F>
  void on(const ClientStreamMethod<Request, Response>& method, F handler) {
    add(method.path, method.access, [handler = std::move(handler)](ByteStream& bytes, Call& call) mutable {
      MessageStream<Request, Response> stream(bytes);
      base::StatusOr<Response> response = handler(stream, call);
      return response.ok() ? stream.write_last(*response) : response.status();
    });
  }
  // handler: (MessageStream<Request, Response>&, Call&) -> Status
  template <class Request, class Response, class F>
  void on(const BidiMethod<Request, Response>& method, F handler) {
    add(method.path, method.access,
        [handler = std::move(handler)](ByteStream& bytes, Call& call) mutable -> base::Status {
          MessageStream<Request, Response> stream(bytes);
          return handler(stream, call);
        });
  }

  const std::vector<Method>& methods() const { return methods_; }

 private:
  void add(const char* path, Access access, Handler handler) { methods_.push_back({path, access, std::move(handler)}); }
  template <class Request, class Response>
  static base::StatusOr<Request> read_one(MessageStream<Request, Response>& stream, Call& call) {
    auto request = stream.read(call.deadline());
    if (!request.ok()) return request.status();
    if (!*request) return base::failed(absl::StatusCode::kInvalidArgument, "the call carries no request");
    return std::move(**request);
  }

  std::vector<Method> methods_;
};

struct ServerOptions {
  std::optional<TlsIdentity> identity;  // none: unix sockets only
  ClusterId cluster;                    // the only one whose certificates are let in; nil: any that the CA signed
  int max_message_bytes = 20 << 20;
};

class Server {
 public:
  // `service` is read by start() alone; what its handlers refer to outlives shutdown().
  Server(base::Loop& loop, const Service& service, ServerOptions options);
  ~Server();  // after shutdown(), or never started
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  base::Status start();
  // Any thread. A TCP connection whose first byte says TLS / a unix connection whose uid was checked.
  void accept_tls(base::Fd fd);
  void accept_local(base::Fd fd);
  // In a fiber: no new calls; the handlers' fibers are cancelled at once, calls cut at the deadline. Returns
  // when all have ended.
  void shutdown(base::TimePoint deadline);
  int calls() const;  // being served

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace rayo::rpc
