#include "runtime/cli/reach.h"

#include <algorithm>

#include "runtime/base/address.h"
#include "runtime/base/text.h"
#include "runtime/base/version.h"
#include "runtime/rpc/join.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::cli {
namespace {

using namespace std::chrono_literals;
using base::cat;

constexpr base::Duration kPatience = 5s;  // of one question: the dialling side gives up after 2 s
constexpr int kMostNodes = 16;            // asked at a join: a firewall's rule seldom concerns one node alone

base::Status blocked(const std::string& from, const std::string& to, const std::string& cause) {
  auto address = base::parse_host_port(to);
  std::string port = address.ok() ? cat("port ", address->port) : std::string("that port");
  return base::failed(absl::StatusCode::kUnavailable, cat(from, " cannot reach ", to, ": ", cause),
                      cat("open ", port, " (TCP, incoming) in the firewall on the machine of ", to,
                          ", or choose another --node-port, --interface or --advertise there"));
}

// The question put to one raylet; ok also where it does not answer.
base::Status ask(rpc::Channel& raylet, const std::string& from, const std::string& to) {
  proto::CheckReachRequest request;
  request.set_address(to);
  auto reply = raylet.call_blocking(rpc::raylet::kCheckReach, request, kPatience);
  return reply.ok() && !reply->reached() ? blocked(from, to, reply->text()) : base::Status();
}

// For control, and for data where that is another one.
std::vector<std::string> addresses_of(const proto::NodeInfo& node) {
  std::vector<std::string> addresses = {node.address()};
  if (!node.data_address().empty()) addresses.push_back(node.data_address());
  return addresses;
}

// As this node itself: only nodes may ask a raylet to dial.
base::StatusOr<rpc::JoinResult> speak_for_node(const Cluster& cluster, const base::Readiness& raylet) {
  RAYO_ASSIGN_OR_RETURN(std::string text, base::read_file(cluster.session()->token_file()));
  RAYO_ASSIGN_OR_RETURN(rpc::Token token, rpc::Token::parse(text));
  RAYO_ASSIGN_OR_RETURN(std::vector<base::HostPort> heads, base::parse_host_ports(cluster.address()));
  auto id = NodeId::from_hex(raylet.node).value_or(NodeId{});
  rpc::Joiner joiner{rpc::Role::kNode, rpc::member_id(id), std::string(base::kVersion)};
  return rpc::join(heads.front(), token, joiner, base::deadline_after(base::system_clock().now(), kPatience));
}

}  // namespace

base::Status check_reach(Cluster& cluster, const base::NodeFiles& node, const base::Readiness& raylet,
                         Terminal& terminal) {
  RAYO_ASSIGN_OR_RETURN(rpc::Channel * head, cluster.head(terminal));
  RAYO_ASSIGN_OR_RETURN(proto::StatusReply status,
                        head->call_blocking(rpc::head::kGetStatus, proto::StatusRequest(), kPatience));
  RAYO_ASSIGN_OR_RETURN(rpc::JoinResult joined, speak_for_node(cluster, raylet));
  auto own = rpc::Channel::local(node.control_socket());
  auto is_ours = [&](const proto::NodeInfo& one) { return rpc::from_proto<NodeId>(one.node()).hex() == raylet.node; };
  auto mine = std::find_if(status.nodes().begin(), status.nodes().end(), is_ours);
  if (mine == status.nodes().end()) return {};  // it left, or died, meanwhile
  int asked = 0;
  for (const proto::NodeInfo& other : status.nodes()) {
    if (is_ours(other) || other.state() != "alive" || asked++ >= kMostNodes) continue;
    auto there = rpc::Channel::tls({.addresses = {other.address()},
                                    .identity = joined.identity,
                                    .expect = {rpc::Role::kNode, joined.cluster, {}}});
    for (const std::string& address : addresses_of(other))
      RAYO_RETURN_IF_ERROR(ask(*own, cat("this node (", raylet.address, ")"), address));
    for (const std::string& address : addresses_of(*mine))
      RAYO_RETURN_IF_ERROR(ask(*there, cat("the node ", other.hostname(), " (", other.address(), ")"), address));
  }
  return {};
}

}  // namespace rayo::cli
