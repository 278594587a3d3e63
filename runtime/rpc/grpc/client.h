// Calls to a head or raylet over gRPC, from fibers, or blocking from a thread of its own (heartbeats).
//
//   auto head = rpc::Channel::tls({.addresses = {"10.0.0.5:6379"},
//                                  .identity = identity,
//                                  .expect = {Role::kHead, cluster, {}}});
//   auto reply = head->call(rpc::head::kGetStatus, proto::StatusRequest(), loop.deadline(2s));
//
//   auto attach = head->open(rpc::head::kAttach);   // one fiber reads, others write
//   attach->write(up);  auto down = attach->read(kForever);  base::Status why = attach->finish();
//
// A channel may be used by any thread; a call belongs to the fiber or thread that made it. Of several
// addresses the first that answers is used, each resolved again when a connection is made. Errors carry our
// words and next steps: kUnavailable not reachable (nothing was done, or the connection broke: unknown),
// kUnauthenticated / kPermissionDenied refused, kDeadlineExceeded; else the handler's own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/loop/loop.h"
#include "runtime/base/session.h"
#include "runtime/rpc/grpc/message_stream.h"
#include "runtime/rpc/grpc/methods.h"
#include "runtime/rpc/grpc/peer.h"
#include "runtime/rpc/identity.h"

namespace rayo::rpc {

struct TlsDial {
  std::vector<std::string> addresses;  // HOST:PORT, [V6]:PORT; tried in turn
  TlsIdentity identity;
  RoleName expect;  // what the other side's certificate must name; a nil cluster or id: any
  int max_message_bytes = 20 << 20;
};

// A call's client side as bytes.
class ClientByteStream : public ByteStream {
 public:
  // No more messages from us.
  virtual base::Status writes_done(base::TimePoint deadline) = 0;
  // Waits for the call's end (messages not read are dropped) and tells how it ended. At the deadline it is
  // cancelled.
  virtual base::Status finish(base::TimePoint deadline) = 0;
  virtual void cancel() = 0;
};

// The caller's end of a stream; destroying it cancels the call and waits for gRPC to let go of it (in a
// fiber).
template <class Out, class In>
class ClientStream {
 public:
  explicit ClientStream(std::unique_ptr<ClientByteStream> bytes) : bytes_(std::move(bytes)), stream_(*bytes_) {}
  base::StatusOr<std::optional<In>> read(base::TimePoint deadline = base::kForever) { return stream_.read(deadline); }
  base::Status write(const Out& message, base::TimePoint deadline = base::kForever) {
    return stream_.write(message, deadline);
  }
  base::Status writes_done(base::TimePoint deadline = base::kForever) { return bytes_->writes_done(deadline); }
  base::Status finish(base::TimePoint deadline = base::kForever) { return bytes_->finish(deadline); }
  void cancel() { bytes_->cancel(); }
  base::Event& gone() { return bytes_->gone(); }

 private:
  std::unique_ptr<ClientByteStream> bytes_;
  MessageStream<In, Out> stream_;
};

class Channel {
 public:
  static std::unique_ptr<Channel> tls(TlsDial dial);
  static std::unique_ptr<Channel> local(const base::Path& socket);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // In a fiber. Where the fiber is cancelled the call is too.
  template <class Request, class Response>
  base::StatusOr<Response> call(const UnaryMethod<Request, Response>& method, const Request& request,
                                base::TimePoint deadline) {
    auto bytes = call_bytes(method.path, request.SerializeAsString(), deadline);
    if (!bytes.ok()) return bytes.status();
    return parse_message<Response>(*bytes);
  }
  // On a thread without a loop.
  template <class Request, class Response>
  base::StatusOr<Response> call_blocking(const UnaryMethod<Request, Response>& method, const Request& request,
                                         base::Duration timeout) {
    auto bytes = call_bytes_blocking(method.path, request.SerializeAsString(), timeout);
    if (!bytes.ok()) return bytes.status();
    return parse_message<Response>(*bytes);
  }
  // In a fiber; what goes wrong shows at the first read or write. `deadline` is the whole call's.
  template <class Request, class Response>
  std::unique_ptr<ClientStream<Request, Response>> open(const BidiMethod<Request, Response>& method,
                                                        base::TimePoint deadline = base::kForever) {
    return std::make_unique<ClientStream<Request, Response>>(open_bytes(method.path, deadline));
  }
  // Write all, then finish_with_reply().
  template <class Request, class Response>
  std::unique_ptr<ClientStream<Request, Response>> open(const ClientStreamMethod<Request, Response>& method,
                                                        base::TimePoint deadline = base::kForever) {
    return std::make_unique<ClientStream<Request, Response>>(open_bytes(method.path, deadline));
  }
  // The request is sent; read() until nullopt, then finish().
  template <class Request, class Response>
  base::StatusOr<std::unique_ptr<ClientStream<Request, Response>>> open(
      const ServerStreamMethod<Request, Response>& method, const Request& request,
      base::TimePoint deadline = base::kForever) {
    auto stream = std::make_unique<ClientStream<Request, Response>>(open_bytes(method.path, deadline));
    base::Status sent = stream->write(request, deadline);
    if (sent.ok()) sent = stream->writes_done(deadline);
    if (sent.ok()) return stream;
    base::Status why = stream->finish(deadline);  // only the end of the call tells what was wrong with the way there
    return why.ok() ? sent : why;
  }

 private:
  struct State;
  explicit Channel(std::shared_ptr<State> state);
  base::StatusOr<std::string> call_bytes(const char* path, std::string request, base::TimePoint deadline);
  base::StatusOr<std::string> call_bytes_blocking(const char* path, std::string request, base::Duration timeout);
  std::unique_ptr<ClientByteStream> open_bytes(const char* path, base::TimePoint deadline);
  std::shared_ptr<State> state_;
};

// The one reply of a client-streaming call after the last write.
template <class Out, class In>
base::StatusOr<In> finish_with_reply(ClientStream<Out, In>& stream, base::TimePoint deadline = base::kForever) {
  RAYO_RETURN_IF_ERROR(stream.writes_done(deadline));
  auto reply = stream.read(deadline);
  if (!reply.ok()) return reply.status();
  RAYO_RETURN_IF_ERROR(stream.finish(deadline));
  if (!*reply) return base::failed(absl::StatusCode::kInternal, "the call ended without a reply");
  return std::move(**reply);
}

}  // namespace rayo::rpc
