// Inside of this folder: one streaming call on the client. A hold (AddHold before StartCall) keeps gRPC from
// ending the call while fibers may still start operations; it is let go of once, last.
#pragma once

#include <functional>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <optional>
#include <string>

#include "runtime/rpc/grpc/client.h"
#include "runtime/rpc/grpc/operation.h"
#include "runtime/rpc/grpc/wire.h"

namespace rayo::rpc {

class ClientCall final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>, public ClientByteStream {
 public:
  // `translate` makes the call's status ours.
  using Translate = std::function<base::Status(const grpc::Status&, const grpc::ClientContext&)>;
  ClientCall(base::Loop& loop, Translate translate);
  ~ClientCall() override;
  void start(grpc::GenericStub& stub, const std::string& path, base::TimePoint deadline);

  // ClientByteStream
  base::StatusOr<std::optional<std::string>> read(base::TimePoint deadline) override;
  base::Status write(std::string message, base::TimePoint deadline) override;
  base::Status write_last(std::string message) override;
  base::Status writes_done(base::TimePoint deadline) override;
  base::Status finish(base::TimePoint deadline) override;
  void cancel() override { context_.TryCancel(); }
  base::Event& gone() override { return gone_; }

  // grpc::ClientBidiReactor
  void OnReadDone(bool ok) override { read_.end(ok); }
  void OnWriteDone(bool ok) override { write_.end(ok); }
  void OnWritesDoneDone(bool ok) override { write_.end(ok); }
  void OnDone(const grpc::Status& status) override;

 private:
  base::Status await_write(base::TimePoint deadline);
  base::Status end();
  base::Status broken() const;

  base::Loop& loop_;
  Translate translate_;
  grpc::ClientContext context_;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
  Operation read_;
  Operation write_;
  base::Semaphore writer_{1};
  bool reading_ = false;  // a read is with gRPC, or ended and not yet fetched
  bool write_failed_ = false;
  bool held_ = false;
  base::Status status_;  // once done_
  base::Event gone_;
  base::Event done_;
};

}  // namespace rayo::rpc
