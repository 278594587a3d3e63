// The methods of service Head, each a fiber over the Core. Loop thread; outlives the server.
#pragma once

#include <functional>

#include "runtime/base/loop/blocking.h"
#include "runtime/base/loop/event.h"
#include "runtime/base/package_files.h"
#include "runtime/head/core.h"
#include "runtime/head/raylet_calls.h"
#include "runtime/head/relay.h"
#include "runtime/rpc/grpc/server.h"

namespace rayo::head {

class HeadService {
 public:
  // `stopped` is called once StopCluster has answered.
  HeadService(Core& core, const base::Path& package_dir, std::function<void()> stopped);
  base::Status prepare() const { return packages_.prepare(); }
  // Adds the methods to a server's service.
  void bind(rpc::Service& service);

 private:
  void bind_nodes(rpc::Service& service);
  void bind_packages(rpc::Service& service);
  void bind_clients(rpc::Service& service);

  base::Status beats(rpc::MessageStream<proto::BeatRequest, proto::BeatReply>& stream, const rpc::Peer& peer);
  proto::PackageReply offer_package(const proto::OfferPackage& offer);
  base::StatusOr<proto::PackageReply> receive_package(
      rpc::MessageStream<proto::PackageChunk, proto::PackageReply>& stream);
  base::Status send_package(const proto::FetchPackageRequest& request,
                            rpc::MessageStream<proto::FetchPackageRequest, proto::PackageChunk>& stream);
  proto::ListReply list(const proto::ListRequest& request);
  proto::WhyReply why(const std::string& id);
  proto::FindLogReply find_log(const proto::FindLogRequest& request);
  base::Status stop(const proto::StopRequest& request,
                    rpc::MessageStream<proto::StopRequest, proto::StopProgress>& stream);

  Core& core_;
  Relay relay_{core_};
  RayletCalls raylets_;
  base::PackageFiles packages_;
  base::WaitList package_came_;
  base::WorkThreads disk_{"packages", 1};  // and long lists
  std::function<void()> stopped_;
};

}  // namespace rayo::head
