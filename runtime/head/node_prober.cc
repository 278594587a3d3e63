#include "runtime/head/node_prober.h"

#include <optional>

#include "runtime/base/address.h"
#include "runtime/base/loop/socket.h"
#include "runtime/rpc/dial.h"

namespace rayo::head {

namespace {

bool says_refused(const base::Status& error) {
  auto text = base::message(error);
  return text.find("refused") != text.npos || text.find("reset") != text.npos;
}

// Numeric addresses alone: a look-up would block the loop, and a name that moves is no proof of a death.
std::optional<rpc::SocketAddress> numeric(const std::string& address) {
  auto host_port = base::parse_host_port(address);
  if (!host_port.ok()) return std::nullopt;
  bool digits = host_port->host.find_first_not_of("0123456789.") == std::string::npos ||
                host_port->host.find(':') != std::string::npos;
  if (!digits) return std::nullopt;
  auto found = rpc::resolve(*host_port);
  return found.ok() ? std::optional(found->front()) : std::nullopt;
}

bool refuses(base::Loop& loop, const rpc::SocketAddress& address) {
  auto fd = rpc::start_connect(address);
  if (!fd.ok()) return says_refused(fd.status());
  if (!base::wait_writable(loop, fd->get(), loop.deadline(kProbeLimit)).ok()) return false;
  auto connected = rpc::finish_connect(fd->get(), address);
  return !connected.ok() && says_refused(connected);
}

}  // namespace

void probe_suspects(base::Loop& loop, Core& core) {
  do {
    base::TaskGroup probes;
    for (const auto& node : core.state.nodes.view().nodes()) {
      if (node.state != scheduler::NodeState::kSuspect) continue;
      const auto* known = core.state.nodes.find(node.id);
      auto address = known ? numeric(known->info.address()) : std::nullopt;
      if (!address) continue;
      probes.spawn("probe", [&loop, &core, id = node.id, at = *address] {
        if (refuses(loop, at)) core.state.nodes.set_refused(id, true);
      });
    }
    probes.join();
  } while (core.state.nodes.any_suspect() && base::sleep_for(kProbeEvery));
}

}  // namespace rayo::head
