#include "runtime/head/head_service.h"

#include <set>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/base/text.h"
#include "runtime/head/attach_stream.h"
#include "runtime/head/merged_lists.h"
#include "runtime/head/stop_cluster.h"
#include "runtime/head/timeouts.h"
#include "runtime/head/views.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::head {

using base::cat;

HeadService::HeadService(Core& core, const base::Path& package_dir, std::function<void()> stopped)
    : core_(core), raylets_(core), packages_(package_dir), stopped_(std::move(stopped)) {}

void HeadService::bind(rpc::Service& service) {
  bind_nodes(service);
  bind_packages(service);
  bind_clients(service);
}

void HeadService::bind_nodes(rpc::Service& service) {
  service.on(rpc::head::kAttach, [this](rpc::MessageStream<proto::NodeUp, proto::NodeDown>& stream, rpc::Call& call) {
    return serve_attach(core_, stream, call);
  });
  service.on(rpc::head::kBeat, [this](rpc::MessageStream<proto::BeatRequest, proto::BeatReply>& stream,
                                      rpc::Call& call) { return beats(stream, call.peer()); });
  service.on(rpc::head::kRelay,
             [this](const proto::RelayRequest& request, rpc::Call& call) -> base::StatusOr<proto::RelayReply> {
               RAYO_RETURN_IF_ERROR(call.peer().may_act_for(rpc::from_proto<NodeId>(request.node())));
               return relay_.answer(request);
             });
  service.on(
      rpc::head::kPlaceLeases,
      [this](const proto::PlaceLeasesRequest& request, rpc::Call& call) -> base::StatusOr<proto::PlaceLeasesReply> {
        RAYO_RETURN_IF_ERROR(call.peer().may_act_for(rpc::from_proto<NodeId>(request.node())));
        return place_leases(core_, request, call.deadline(), call.gone());
      });
}

void HeadService::bind_packages(rpc::Service& service) {
  service.on(rpc::head::kOfferPackageToHead,
             [this](const proto::OfferPackage& offer, rpc::Call&) -> base::StatusOr<proto::PackageReply> {
               return offer_package(offer);
             });
  service.on(rpc::head::kSendPackage, [this](rpc::MessageStream<proto::PackageChunk, proto::PackageReply>& stream,
                                             rpc::Call&) { return receive_package(stream); });
  service.on(rpc::head::kFetchPackage,
             [this](const proto::FetchPackageRequest& request,
                    rpc::MessageStream<proto::FetchPackageRequest, proto::PackageChunk>& stream,
                    rpc::Call&) { return send_package(request, stream); });
}

void HeadService::bind_clients(rpc::Service& service) {
  service.on(
      rpc::head::kGetStatus,
      [this](const proto::StatusRequest&, rpc::Call&) -> base::StatusOr<proto::StatusReply> { return core_.status(); });
  service.on(rpc::head::kList,
             [this](const proto::ListRequest& request, rpc::Call&) -> base::StatusOr<proto::ListReply> {
               return list(request);
             });
  service.on(rpc::head::kWhy, [this](const proto::WhyRequest& request, rpc::Call&) -> base::StatusOr<proto::WhyReply> {
    return why(request.id());
  });
  service.on(rpc::head::kFindLog,
             [this](const proto::FindLogRequest& request, rpc::Call&) -> base::StatusOr<proto::FindLogReply> {
               return find_log(request);
             });
  service.on(rpc::head::kStopCluster, [this](const proto::StopRequest& request,
                                             rpc::MessageStream<proto::StopRequest, proto::StopProgress>& stream,
                                             rpc::Call&) { return stop(request, stream); });
  service.on(rpc::head::kGetConfig,
             [this](const proto::ConfigRequest&, rpc::Call&) -> base::StatusOr<proto::ConfigReply> {
               proto::ConfigReply reply;
               for (const auto& setting : base::all_settings()) {
                 const auto& entry = core_.foundation().config.entry(setting.key);
                 auto* out = reply.add_entries();
                 out->set_key(std::string(setting.key));
                 out->set_value(entry.value);
                 out->set_source(entry.source);
                 out->set_reason(std::string(setting.reason));
               }
               return reply;
             });
}

base::Status HeadService::beats(rpc::MessageStream<proto::BeatRequest, proto::BeatReply>& stream,
                                const rpc::Peer& peer) {
  while (true) {
    RAYO_ASSIGN_OR_RETURN(auto request, stream.read());
    if (!request) return absl::OkStatus();
    RAYO_RETURN_IF_ERROR(peer.may_act_for(rpc::from_proto<NodeId>(request->node())));
    Outcome out;
    auto reply = core_.nodes.beat(*request, out);
    reply.set_read_only(!core_.line.refusal().ok());
    core_.line.submit(std::move(out));
    RAYO_RETURN_IF_ERROR(stream.write(reply));
  }
}

proto::PackageReply HeadService::offer_package(const proto::OfferPackage& offer) {
  proto::PackageReply reply;
  const auto package = rpc::from_proto<PackageId>(offer.package());
  reply.set_needed(
      !base::run_on_thread(disk_, [&] { return packages_.use(package); }));  // where surplus is removed, too
  return reply;
}

base::StatusOr<proto::PackageReply> HeadService::receive_package(
    rpc::MessageStream<proto::PackageChunk, proto::PackageReply>& stream) {
  std::unique_ptr<base::PackageFiles::Incoming> incoming;
  for (;;) {
    auto chunk = stream.read();
    if (!chunk.ok()) return chunk.status();
    if (!*chunk)
      return base::failed(absl::StatusCode::kInvalidArgument, "a package ended before its last piece", "send it again");
    auto id = rpc::from_proto<PackageId>((*chunk)->package());
    auto written = base::run_on_thread(disk_, [&]() -> base::Status {
      if (!incoming) {
        RAYO_ASSIGN_OR_RETURN(incoming, packages_.begin(id));
      }
      RAYO_RETURN_IF_ERROR(incoming->write((*chunk)->offset(), (*chunk)->data()));
      return (*chunk)->last() ? incoming->finish() : base::Status();
    });
    if (!written.ok()) return written;
    if ((*chunk)->last()) {
      package_came_.notify_all();
      std::set<PackageId> running = core_.state.jobs.packages();
      base::run_on_thread(disk_, [&] { packages_.trim(running); });
      return proto::PackageReply();
    }
  }
}

base::Status HeadService::send_package(const proto::FetchPackageRequest& request,
                                       rpc::MessageStream<proto::FetchPackageRequest, proto::PackageChunk>& stream) {
  auto id = rpc::from_proto<PackageId>(request.package());
  // A node may be asked to run a program that the driver's node is still sending.
  for (auto until = base::current_loop()->deadline(kPackageAwaited); !packages_.has(id);) {
    if (!package_came_.wait(until)) break;
  }
  RAYO_ASSIGN_OR_RETURN(auto file, packages_.open(id));
  proto::PackageChunk chunk;
  *chunk.mutable_package() = request.package();
  for (int64_t offset = 0;;) {
    std::string data(base::kPackagePieceBytes, '\0');
    auto [got, error] = base::run_on_thread(disk_, [&] {
      const ssize_t bytes = ::pread(file.get(), data.data(), data.size(), offset);
      return std::pair(bytes, errno);  // of that thread
    });
    if (got < 0) return base::failed_errno(error, cat("cannot read the package ", id.hex()));
    data.resize(static_cast<size_t>(got));
    chunk.set_offset(offset);
    chunk.set_last(got < base::kPackagePieceBytes);
    chunk.set_data(std::move(data));
    offset += got;
    RAYO_RETURN_IF_ERROR(stream.write(chunk));
    if (chunk.last()) return {};
  }
}

proto::ListReply HeadService::list(const proto::ListRequest& request) {
  const std::string& what = request.what();
  if (what == "workers") return raylets_.list(what);
  if (what != "tasks" && what != "objects") return list_of(core_.state, what);
  const proto::ListReply told = raylets_.list(what);
  const NamedByKey named(core_.state);
  auto reply =
      base::run_on_thread(disk_, [&] { return what == "tasks" ? tasks_of(told, named) : objects_of(told, named); });
  *reply.mutable_unreachable() = told.unreachable();
  return reply;
}

proto::WhyReply HeadService::why(const std::string& id) {
  auto known = why_of(core_.state, id);
  if (!known.has_failure()) return known;
  auto found = raylets_.find_worker(id);
  if (found.worker) return why_process(core_.state, *found.worker);
  known.mutable_failure()->set_text(cat(known.failure().text(), found.doubt));
  return known;
}

proto::FindLogReply HeadService::find_log(const proto::FindLogRequest& request) {
  auto place = log_of(core_.state, request.id());
  std::string doubt;
  if (!place) {
    auto found = raylets_.find_worker(request.id());
    doubt = std::move(found.doubt);
    if (const auto& worker = found.worker)
      place = LogPlace{rpc::from_proto<NodeId>(worker->node()), rpc::from_proto<ProcessId>(worker->process())};
  }
  proto::FindLogReply out;
  const auto* node = place ? core_.state.nodes.find(place->node) : nullptr;
  if (!node) {
    *out.mutable_failure() =
        failure(proto::INVALID, cat("no log of ", request.id(), place ? ": its node is gone" : "", doubt),
                "`rayo list workers|actors|nodes` shows the ids");
    return out;
  }
  out.set_node_address(node->info.address());
  rpc::to_proto(place->process, out.mutable_process());
  return out;
}

base::Status HeadService::stop(const proto::StopRequest& request,
                               rpc::MessageStream<proto::StopRequest, proto::StopProgress>& stream) {
  auto status = stop_cluster(core_, base::span_of_ms(request.grace_ms()),
                             [&](const proto::StopProgress& progress) { return stream.write(progress); });
  stopped_();
  return status;
}

}  // namespace rayo::head
