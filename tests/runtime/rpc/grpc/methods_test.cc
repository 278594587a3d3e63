// If this fails, a daemon answers "unknown method" to what the .proto files promise: the table of methods.h
// is not theirs.
#include "runtime/rpc/grpc/methods.h"

#include <algorithm>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "runtime/base/loop/blocking.h"
#include "runtime/proto/head.grpc.pb.h"
#include "runtime/proto/raylet.grpc.pb.h"
#include "served_cluster.h"

namespace rayo::rpc {
namespace {

// Serves every method of the table and calls each through the code that protoc made: types by overload, paths
// by the call.
template <class Stub>
class Checked {
 public:
  template <class Q, class R>
  void add(const UnaryMethod<Q, R>& method, grpc::Status (Stub::*call)(grpc::ClientContext*, const Q&, R*)) {
    service_.on(method,
                [this, method](const Q&, Call&) -> base::StatusOr<R> { return seen_.push_back(method.path), R(); });
    calls_.push_back([call, method](Stub& stub) {
      grpc::ClientContext context;
      R reply;
      EXPECT_TRUE((stub.*call)(&context, Q(), &reply).ok()) << method.path;
    });
  }
  template <class Q, class R>
  void add(const ServerStreamMethod<Q, R>& method,
           std::unique_ptr<grpc::ClientReader<R>> (Stub::*call)(grpc::ClientContext*, const Q&)) {
    service_.on(method, [this, method](const Q&, MessageStream<Q, R>&, Call&) {
      return seen_.push_back(method.path), absl::OkStatus();
    });
    calls_.push_back([call, method](Stub& stub) {
      grpc::ClientContext context;
      EXPECT_TRUE((stub.*call)(&context, Q())->Finish().ok()) << method.path;
    });
  }
  template <class Q, class R>
  void add(const ClientStreamMethod<Q, R>& method,
           std::unique_ptr<grpc::ClientWriter<Q>> (Stub::*call)(grpc::ClientContext*, R*)) {
    service_.on(method, [this, method](MessageStream<Q, R>&, Call&) -> base::StatusOr<R> {
      return seen_.push_back(method.path), R();
    });
    calls_.push_back([call, method](Stub& stub) {
      grpc::ClientContext context;
      R reply;
      auto writer = (stub.*call)(&context, &reply);
      writer->WritesDone();
      EXPECT_TRUE(writer->Finish().ok()) << method.path;
    });
  }
  template <class Q, class R>
  void add(const BidiMethod<Q, R>& method,
           std::unique_ptr<grpc::ClientReaderWriter<Q, R>> (Stub::*call)(grpc::ClientContext*)) {
    service_.on(method,
                [this, method](MessageStream<Q, R>&, Call&) { return seen_.push_back(method.path), absl::OkStatus(); });
    calls_.push_back([call, method](Stub& stub) {
      grpc::ClientContext context;
      auto stream = (stub.*call)(&context);
      stream->WritesDone();
      EXPECT_TRUE(stream->Finish().ok()) << method.path;
    });
  }

  void run() {
    base::run_in_loop([this] {
      Server server(*base::current_loop(), service_, {});
      ASSERT_TRUE(server.start().ok());
      int fds[2];
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
      server.accept_local(base::Fd(fds[0]));
      {
        Stub stub(grpc::CreateInsecureChannelFromFd("test", fds[1]));
        base::WorkThreads threads("test-stub", 1);
        for (auto& call : calls_) base::run_on_thread(threads, [&] { call(stub); });
      }
      server.shutdown(base::current_loop()->deadline(1s));
    });
    std::vector<std::string> table;
    for (const auto& method : service_.methods()) table.push_back(method.path);
    EXPECT_EQ(seen_, table);
  }

 private:
  Service service_;
  std::vector<std::string> seen_;
  std::vector<std::function<void(Stub&)>> calls_;
};

TEST(Methods, TheHeadsAreThoseOfItsProto) {
  using Stub = proto::Head::Stub;
  Checked<Stub> checked;
  checked.add(head::kAttach, &Stub::Attach);
  checked.add(head::kBeat, &Stub::Beat);
  checked.add(head::kRelay, &Stub::Relay);
  checked.add(head::kPlaceLeases, &Stub::PlaceLeases);
  checked.add(head::kFetchPackage, &Stub::FetchPackage);
  checked.add(head::kOfferPackageToHead, &Stub::OfferPackageToHead);
  checked.add(head::kSendPackage, &Stub::SendPackage);
  checked.add(head::kGetStatus, &Stub::GetStatus);
  checked.add(head::kList, &Stub::List);
  checked.add(head::kWhy, &Stub::Why);
  checked.add(head::kFindLog, &Stub::FindLog);
  checked.add(head::kStopCluster, &Stub::StopCluster);
  checked.add(head::kGetConfig, &Stub::GetConfig);
  checked.run();
}

TEST(Methods, TheRayletsAreThoseOfItsProto) {
  using Stub = proto::Raylet::Stub;
  Checked<Stub> checked;
  checked.add(raylet::kAskObject, &Stub::AskObject);
  checked.add(raylet::kHoldObjects, &Stub::HoldObjects);
  checked.add(raylet::kCheckReach, &Stub::CheckReach);
  checked.add(raylet::kEndLeaseFrom, &Stub::EndLeaseFrom);
  checked.add(raylet::kGetLocalStatus, &Stub::GetLocalStatus);
  checked.add(raylet::kListHere, &Stub::ListHere);
  checked.add(raylet::kReadLog, &Stub::ReadLog);
  checked.add(raylet::kStopNode, &Stub::StopNode);
  checked.run();
}

}  // namespace
}  // namespace rayo::rpc
