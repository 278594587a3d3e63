#include "runtime/raylet/peer_raylets.h"

#include "runtime/base/log.h"
#include "runtime/base/pid_file.h"
#include "runtime/raylet/head_link.h"
#include "runtime/rpc/grpc/methods.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::raylet {
namespace {

using namespace std::chrono_literals;

constexpr base::Duration kShortCall = 10s;
// An object is answered for when it is known, which may take as long as its task: the home's death ends the
// wait (gRPC breaks).
constexpr base::Duration kAskLimit = 24h;

}  // namespace

PeerRaylets::PeerRaylets(base::Loop& loop, Processes& processes, Nodes& nodes, rpc::TlsIdentity identity,
                         ClusterId cluster)
    : loop_(loop), processes_(processes), nodes_(nodes), identity_(std::move(identity)), cluster_(cluster) {}

PeerRaylets::~PeerRaylets() = default;

std::shared_ptr<rpc::Channel> PeerRaylets::channel(NodeId node) {
  auto& channel = channels_[node];
  if (!channel) {
    rpc::TlsDial dial;
    dial.addresses = {address_of(node)};
    dial.identity = identity_;
    dial.expect = {rpc::Role::kNode, cluster_, rpc::member_id(node)};
    channel = rpc::Channel::tls(std::move(dial));
  }
  return channel;
}

template <class Request, class Reply>
void PeerRaylets::call(NodeId node, const rpc::UnaryMethod<Request, Reply>& method, Request request,
                       base::Duration limit, std::function<void(base::StatusOr<Reply>)> done) {
  tasks_.spawn("peer raylet", [this, node, &method, request = std::move(request), limit, done = std::move(done)] {
    if (address_of(node).empty())
      return done(base::failed(absl::StatusCode::kUnavailable, "the node is not known here"));
    auto open = channel(node);
    done(open->call(method, request, loop_.deadline(limit)));
  });
}

void PeerRaylets::end_fibers() {
  tasks_.cancel();
  tasks_.join();
}

proto::Failure PeerRaylets::failure_with(NodeId node, const base::Status& status) const {
  proto::Failure failure = failure_of(status);
  failure.set_kind(proto::UNAVAILABLE);
  const proto::NodeInfo* info = nodes_.find(node);
  if (info && info->state() == "dead") *failure.mutable_death() = info->death();
  return failure;
}

void PeerRaylets::end_lease(NodeId node, const proto::EndLeaseFromRequest& request) {
  call<proto::EndLeaseFromRequest, proto::Done>(
      node, rpc::raylet::kEndLeaseFrom, request, kShortCall, [node](const auto& reply) {
        if (!reply.ok())
          base::log().warn("a lease on node {} was not given back: {}", node.hex(), base::message(reply.status()));
      });
}

std::optional<proto::CheckLeasesReply> PeerRaylets::check_leases(NodeId node,
                                                                 const proto::CheckLeasesRequest& request) {
  if (address_of(node).empty()) return std::nullopt;
  auto open = channel(node);
  auto reply = open->call(rpc::raylet::kCheckLeases, request, loop_.deadline(kShortCall));
  return reply.ok() ? std::optional(std::move(*reply)) : std::nullopt;
}

void PeerRaylets::send(ProcessId to, uint64_t call_id, const proto::ToWorker& message) {
  processes_.send(to, call_id, message);
}

NodeId PeerRaylets::node_of(uint64_t short_node) const { return nodes_.by_short_id(short_node); }

const proto::DeathRecord* PeerRaylets::death_of(uint64_t short_node) const { return nodes_.death_of(short_node); }

std::string PeerRaylets::address_of(NodeId node) const {
  const proto::NodeInfo* info = nodes_.find(node);
  return info ? info->address() : std::string();
}

std::string PeerRaylets::data_address_of(NodeId node) const {
  const proto::NodeInfo* info = nodes_.find(node);
  return info && !info->data_address().empty() ? info->data_address() : address_of(node);
}

bool PeerRaylets::same_machine(NodeId node) const {
  const proto::NodeInfo* info = nodes_.find(node);
  return info && info->machine() == base::boot_id();
}

void PeerRaylets::ask_object(NodeId home, const proto::AskObjectRequest& request,
                             std::function<void(base::StatusOr<proto::AskObjectReply>)> done) {
  call<proto::AskObjectRequest, proto::AskObjectReply>(home, rpc::raylet::kAskObject, request, kAskLimit,
                                                       std::move(done));
}

void PeerRaylets::hold_objects(NodeId home, const proto::HoldObjectsRequest& request,
                               std::function<void(proto::HoldObjectsReply)> done) {
  call<proto::HoldObjectsRequest, proto::HoldObjectsReply>(
      home, rpc::raylet::kHoldObjects, request, kShortCall, [this, home, done = std::move(done)](auto reply) {
        if (reply.ok()) return done(std::move(*reply));
        proto::HoldObjectsReply failed;
        *failed.mutable_failure() = failure_with(home, reply.status());
        done(std::move(failed));
      });
}

void PeerRaylets::drop_copies(NodeId holder, const proto::DropCopiesRequest& request,
                              std::function<void(bool answered)> done) {
  call<proto::DropCopiesRequest, proto::Done>(holder, rpc::raylet::kDropCopies, request, kShortCall,
                                              [done = std::move(done)](const auto& reply) { done(reply.ok()); });
}

}  // namespace rayo::raylet
