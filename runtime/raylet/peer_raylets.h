// gRPC to other raylets, and with it the wires of the object service: one channel for each node that was ever
// asked, by mutual TLS to the certificate of exactly that node.
//
// Loop thread only; each call runs in a fiber of its own.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "runtime/base/loop/event.h"
#include "runtime/raylet/nodes.h"
#include "runtime/raylet/object_service.h"
#include "runtime/raylet/processes.h"
#include "runtime/rpc/grpc/client.h"

namespace rayo::raylet {

class PeerRaylets : public ObjectWires {
 public:
  PeerRaylets(base::Loop& loop, Processes& processes, Nodes& nodes, rpc::TlsIdentity identity, ClusterId cluster);
  ~PeerRaylets() override;
  // Ends its fibers, which call into other parts, while those are there. In a fiber.
  void end_fibers();

  void end_lease(NodeId node, const proto::EndLeaseFromRequest& request);
  // In a fiber; nullopt: no answer.
  std::optional<proto::CheckLeasesReply> check_leases(NodeId node, const proto::CheckLeasesRequest& request);
  void node_gone(NodeId node) { channels_.erase(node); }

  // ---- ObjectWires ----
  void send(ProcessId to, uint64_t call_id, const proto::ToWorker& message) override;
  NodeId own_node() const override { return processes_.node(); }
  NodeId node_of(uint64_t short_node) const override;
  const proto::DeathRecord* death_of(uint64_t short_node) const override;
  std::string data_address_of(NodeId node) const override;
  bool same_machine(NodeId node) const override;
  void ask_object(NodeId home, const proto::AskObjectRequest& request,
                  std::function<void(base::StatusOr<proto::AskObjectReply>)> done) override;
  void hold_objects(NodeId home, const proto::HoldObjectsRequest& request,
                    std::function<void(proto::HoldObjectsReply)> done) override;
  void drop_copies(NodeId holder, const proto::DropCopiesRequest& request,
                   std::function<void(bool answered)> done) override;

 private:
  std::string address_of(NodeId node) const;
  std::shared_ptr<rpc::Channel> channel(NodeId node);
  proto::Failure failure_with(NodeId node, const base::Status& status) const;
  template <class Request, class Reply>
  void call(NodeId node, const rpc::UnaryMethod<Request, Reply>& method, Request request, base::Duration limit,
            std::function<void(base::StatusOr<Reply>)> done);

  base::Loop& loop_;
  Processes& processes_;
  Nodes& nodes_;
  rpc::TlsIdentity identity_;
  ClusterId cluster_;
  std::map<NodeId, std::shared_ptr<rpc::Channel>> channels_;  // shared with the calls under way
  base::TaskGroup tasks_;
};

}  // namespace rayo::raylet
