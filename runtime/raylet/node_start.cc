#include "runtime/raylet/node_start.h"

#include <chrono>
#include <cstdlib>
#include <string_view>
#include <unistd.h>

#include "runtime/base/address.h"
#include "runtime/base/loop/blocking.h"
#include "runtime/base/pid_file.h"
#include "runtime/base/text.h"
#include "runtime/base/version.h"
#include "runtime/raylet/resource_report.h"
#include "runtime/rpc/proto_ids.h"
#include "runtime/rpc/token.h"

namespace rayo::raylet {
namespace {

using namespace std::chrono_literals;

constexpr base::Duration kJoinLimit = 10s;   // one head: connect, handshake, certificate
constexpr base::Duration kBesideHead = 10s;  // how long a head that starts beside us may be late

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

}  // namespace

bool parse_arguments(int argc, char** argv, Arguments& out) {
  for (int i = 1; i + 1 < argc; i += 2) {
    std::string_view word = argv[i];
    if (word == "--settings")
      out.settings = argv[i + 1];
    else if (word == "--ready-fd")
      out.ready_fd = std::atoi(argv[i + 1]);
    else
      return false;
  }
  return argc % 2 == 1 && !out.settings.empty();
}

base::StatusOr<rpc::JoinResult> join_cluster(base::Loop& loop, const base::RayletSettings& settings, NodeId node) {
  RAYO_ASSIGN_OR_RETURN(std::string text, base::read_file(settings.token_file));
  RAYO_ASSIGN_OR_RETURN(rpc::Token token, rpc::Token::parse(text));
  rpc::Joiner joiner{rpc::Role::kNode, rpc::member_id(node), std::string(base::kVersion)};
  base::WorkThreads dialler("rayo-join", 1);
  base::TimePoint patience = loop.deadline(settings.with_head ? kBesideHead : base::Duration(0));
  while (true) {
    base::Status last = base::failed(absl::StatusCode::kInvalidArgument, "no address of a head is given",
                                     "rayo start --address HOST:PORT");
    for (const auto& address : settings.head_addresses) {
      RAYO_ASSIGN_OR_RETURN(auto head, base::parse_host_port(address));
      auto joined =
          base::run_on_thread(dialler, [&] { return rpc::join(head, token, joiner, loop.deadline(kJoinLimit)); });
      if (joined.ok()) return joined;
      last = joined.status();
    }
    if (last.code() != absl::StatusCode::kUnavailable || loop.now() >= patience || !base::sleep_for(20ms)) return last;
  }
}

OwnNode describe_node(const base::RayletSettings& settings, NodeId node, const rpc::Port& port) {
  OwnNode own;
  own.id = node;
  own.address = port.address();
  if (!settings.bind.data_host.empty()) own.data_address = base::HostPort{settings.bind.data_host, port.port()}.text();
  own.machine = base::boot_id();
  own.hostname = host_name();
  own.started = base::system_clock().wall();
  for (const auto& [key, value] : settings.labels) own.labels[key] = value;
  return own;
}

proto::NodeInfo node_info(const OwnNode& own, const base::RayletSettings& settings, const scheduler::Capacity& capacity,
                          const std::vector<gpu::Device>& listed) {
  proto::NodeInfo info;
  rpc::to_proto(own.id, info.mutable_node());
  info.set_hostname(own.hostname);
  info.set_address(own.address);
  info.set_data_address(own.data_address);
  info.set_state("alive");
  info.set_head(settings.with_head);
  for (const auto& [key, value] : own.labels) (*info.mutable_labels())[key] = value;
  info.set_started_at_unix_us(
      std::chrono::duration_cast<std::chrono::microseconds>(own.started.time_since_epoch()).count());
  *info.mutable_total() = rpc::to_proto(capacity.total());
  *info.mutable_free() = rpc::to_proto(capacity.free());
  for (auto& device : describe_devices(listed, capacity.devices())) *info.add_devices() = std::move(device);
  info.set_machine(own.machine);
  info.set_version(std::string(base::kVersion));
  return info;
}

}  // namespace rayo::raylet
