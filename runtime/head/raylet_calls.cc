#include "runtime/head/raylet_calls.h"

#include "runtime/base/text.h"
#include "runtime/head/views.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::head {

namespace {
constexpr base::Duration kAnswerWithin = 2s;
}

std::shared_ptr<rpc::Channel> RayletCalls::channel(NodeId node, const std::string& address) {
  auto& kept = channels_[node];
  if (!kept.channel || kept.address != address) {
    rpc::RoleName expect{rpc::Role::kNode, core_.foundation().id(), rpc::member_id(node)};
    kept = {address,
            rpc::Channel::tls({.addresses = {address}, .identity = core_.foundation().identity, .expect = expect})};
  }
  return kept.channel;
}

proto::ListReply RayletCalls::list(const std::string& what) {
  std::erase_if(channels_, [&](const auto& entry) { return !core_.state.nodes.find(entry.first); });
  proto::ListReply out;
  auto deadline = base::deadline_after(core_.state.now(), kAnswerWithin);
  base::TaskGroup asks;
  for (const auto& [id, node] : core_.state.nodes.all()) {
    std::string name = base::cat(node.info.hostname(), " at ", node.info.address());
    asks.spawn("list", [to = channel(id, node.info.address()), name = std::move(name), deadline, &what, &out] {
      proto::ListRequest request;
      request.set_what(what);
      auto reply = to->call(rpc::raylet::kListHere, request, deadline);
      if (reply.ok())
        out.MergeFrom(*reply);
      else
        out.add_unreachable(name);
    });
  }
  asks.join();
  return out;
}

RayletCalls::FoundWorker RayletCalls::find_worker(const std::string& id) {
  if (id.size() < kPrefixDigits) return {};
  proto::ListReply all = list("workers");
  for (auto& worker : *all.mutable_workers()) {
    if (rpc::from_proto<ProcessId>(worker.process()).hex().starts_with(base::lower(id))) return {std::move(worker), {}};
  }
  if (all.unreachable().empty()) return {};
  const std::vector<std::string> silent(all.unreachable().begin(), all.unreachable().end());
  return {std::nullopt, base::cat(", and these nodes did not answer: ", base::join(silent, ", "))};
}

}  // namespace rayo::head
