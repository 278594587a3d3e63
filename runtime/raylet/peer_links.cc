#include "runtime/raylet/peer_links.h"

#include <vector>

#include "runtime/base/log.h"
#include "runtime/base/open_files.h"
#include "runtime/base/pid_file.h"
#include "runtime/base/text.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::raylet {
namespace {

using base::cat;

proto::Failure gone_failure(const proto::DeathRecord* death, std::string text) {
  proto::Failure failure;
  failure.set_kind(proto::ACTOR_DIED);
  if (death) *failure.mutable_death() = *death;
  failure.set_text(death ? death->text() : std::move(text));
  return failure;
}

proto::Failure unavailable(std::string text, std::string next_step) {
  proto::Failure failure;
  failure.set_kind(proto::UNAVAILABLE);
  failure.set_text(std::move(text));
  failure.set_next_step(std::move(next_step));
  return failure;
}

}  // namespace

PeerLinks::PeerLinks(Processes& processes, FindNode find_node)
    : processes_(processes), find_node_(std::move(find_node)) {
  // Built before every other listener: who calls a dead process hears of it before anybody does anything
  // about it.
  processes_.on_end(
      [this](const LocalProcess& process, const proto::DeathRecord& death) { process_gone(process, death); });
}

PeerLinks::~PeerLinks() = default;

void PeerLinks::connect(ProcessId from, uint64_t call_id, const proto::Connect& request) {
  LocalProcess* caller = processes_.find(from);
  if (!caller) return;
  auto node = rpc::from_proto<NodeId>(request.peer().node());
  auto peer = rpc::from_proto<ProcessId>(request.peer().process());
  if (node && node != processes_.node()) return connect_away(*caller, call_id, request.peer());
  LocalProcess* target = processes_.find(peer);
  // A remote driver dials this node's port like a process of another node.
  if (target && target->wire && caller->remote && !target->remote)
    return connect_away(*caller, call_id, request.peer());
  if (target && target->wire && target != caller && !target->remote && !caller->remote)
    return connect_here(*caller, call_id, *target);
  if (target && target->wire && target != caller)
    return refuse(from, call_id, request.peer(),
                  unavailable("a driver on a machine without a node can be reached by those alone whom it calls",
                              "pass its stream in a call of the driver itself, or run it where a node is"));
  refuse(from, call_id, request.peer(),
         gone_failure(processes_.death_of(peer), cat("process ", peer.hex(), " is not on this node")));
}

void PeerLinks::refuse(ProcessId from, uint64_t call_id, const proto::ProcessAddress& peer, proto::Failure failure) {
  proto::ToWorker message;
  *message.mutable_peer_link()->mutable_peer() = peer;
  *message.mutable_peer_link()->mutable_failure() = std::move(failure);
  processes_.send(from, call_id, message);
}

void PeerLinks::connect_here(LocalProcess& from, uint64_t call_id, LocalProcess& to) {
  Key key = key_of(from.id, to.id);
  auto known = links_.find(key);
  if (known != links_.end()) {
    if (!known->second.closed.closed()) {
      // Both asked at once: this side has the link already, by the push that went before this answer.
      proto::ToWorker message;
      rpc::to_proto(to.id, message.mutable_peer_link()->mutable_peer()->mutable_process());
      rpc::to_proto(processes_.node(), message.mutable_peer_link()->mutable_peer()->mutable_node());
      processes_.send(from.id, call_id, message);
      return;
    }
    drop_link(key);
  }
  if (auto made = make_link(from, call_id, to); !made.ok())
    refuse(from.id, call_id, {},
           unavailable(cat("the raylet cannot link two processes of its node: ", base::message(made)),
                       base::next_step(made)));
}

void PeerLinks::introduce(ProcessId from, ProcessId to) {
  LocalProcess* caller = processes_.find(from);
  LocalProcess* target = processes_.find(to);
  if (!caller || !target || caller == target || !caller->wire || !target->wire) return;
  if (caller->remote || target->remote || links_.count(key_of(from, to)) != 0) return;
  (void)make_link(*caller, 0, *target);
}

namespace {

// What a process is given of a ring: its memory, and the other side's doorbell.
base::StatusOr<std::vector<base::Fd>> ring_descriptors(int ring_fd, const LocalProcess& peer) {
  const rpc::DoorbellFds& bell = peer.doorbell_fds;
  std::vector<base::Fd> descriptors;
  for (int fd : {ring_fd, bell.page.get(), bell.main.get(), bell.service.get()}) {
    RAYO_ASSIGN_OR_RETURN(base::Fd copy, base::duplicate(fd));
    descriptors.push_back(std::move(copy));
  }
  return descriptors;
}

}  // namespace

// All that can fail comes before anything is sent: a frame whose descriptors cannot go ends a process's connection.
base::Status PeerLinks::make_link(LocalProcess& from, uint64_t call_id, LocalProcess& to) {
  RAYO_ASSIGN_OR_RETURN(auto pair, rpc::RingPair::create());
  RAYO_ASSIGN_OR_RETURN(auto for_to, ring_descriptors(pair.fd.get(), from));
  RAYO_ASSIGN_OR_RETURN(auto for_from, ring_descriptors(pair.fd.get(), to));
  auto bit_in_to = take_bit(to.id), bit_in_from = take_bit(from.id);
  if (!bit_in_to || !bit_in_from) {
    if (bit_in_to) bits_[to.id].reset(*bit_in_to);
    if (bit_in_from) bits_[from.id].reset(*bit_in_from);
    return base::failed(absl::StatusCode::kUnavailable, cat("more than ", rpc::kDoorbellBits, " peers of one process"),
                        "end processes that are not needed any more");
  }
  Link& link = links_[key_of(from.id, to.id)];
  link.sides[0] = from.id;
  link.sides[1] = to.id;
  link.bits[0] = *bit_in_from;
  link.bits[1] = *bit_in_to;
  link.closed = std::move(pair.closed_mark);
  // The other side first: it is ready before the first frame is in its ring.
  send_link(to, 0, from, link, std::move(for_to));
  send_link(from, call_id, to, link, std::move(for_from));
  return absl::OkStatus();
}

void PeerLinks::send_link(const LocalProcess& to, uint64_t call_id, const LocalProcess& peer, const Link& link,
                          std::vector<base::Fd> descriptors) {
  int side = link.sides[0] == to.id ? 0 : 1;
  proto::ToWorker message;
  auto& out = *message.mutable_peer_link();
  rpc::to_proto(processes_.node(), out.mutable_peer()->mutable_node());
  rpc::to_proto(peer.id, out.mutable_peer()->mutable_process());
  out.mutable_peer()->set_machine(base::boot_id());
  out.set_ring(true);
  out.set_first(side == 0);
  out.set_my_bit(link.bits[1 - side]);
  out.set_peer_bit(link.bits[side]);
  processes_.send(to.id, call_id, message, std::move(descriptors));
}

void PeerLinks::connect_away(LocalProcess& from, uint64_t call_id, const proto::ProcessAddress& peer) {
  auto node = rpc::from_proto<NodeId>(peer.node());
  if (!node) node = processes_.node();
  auto remote = find_node_(node);
  if (!remote)
    return refuse(from.id, call_id, peer, unavailable(cat("node ", node.hex(), " is not known here"), "rayo status"));
  if (remote->death) return refuse(from.id, call_id, peer, gone_failure(remote->death, ""));
  auto process = rpc::from_proto<ProcessId>(peer.process());
  RemotePeer& entry = remotes_[process];
  entry.node = node;
  entry.callers.insert(from.id);
  proto::ToWorker message;
  auto& out = *message.mutable_peer_link()->mutable_peer();
  out = peer;
  // A remote driver stands outside of the network between the nodes.
  bool inside = !from.remote && !remote->data_host_port.empty();
  out.set_host_port(inside ? remote->data_host_port : remote->host_port);
  out.set_machine(remote->machine);
  processes_.send(from.id, call_id, message);
}

bool PeerLinks::accepted(base::Fd socket, const rpc::DataHeader& header) {
  auto target = rpc::id_from_bytes<ProcessId>(header.target);
  LocalProcess* process = processes_.find(target);
  if (!process || !process->wire || process->remote) return false;
  proto::ToWorker message;
  message.mutable_accepted_peer()->set_tls(header.tls);
  message.mutable_accepted_peer()->set_nonce(header.nonce.data(), header.nonce.size());
  std::vector<base::Fd> descriptors;
  descriptors.push_back(std::move(socket));
  return processes_.send(target, 0, message, std::move(descriptors));
}

void PeerLinks::process_gone(const LocalProcess& process, const proto::DeathRecord& death) {
  std::vector<Key> keys;
  for (const auto& [key, link] : links_)
    if (key.first == process.id || key.second == process.id) keys.push_back(key);
  for (const Key& key : keys) {
    Link& link = links_.at(key);
    link.closed.close();
    int other = link.sides[0] == process.id ? 1 : 0;
    ProcessId peer = link.sides[other];
    tell_gone(peer, process.id, death);
    if (LocalProcess* alive = processes_.find(peer); alive && alive->doorbell) {
      alive->doorbell->ring(link.bits[other], true);
      alive->doorbell->kick(link.bits[other]);  // it may be in user code
    }
    drop_link(key);
  }
  bits_.erase(process.id);
  for (auto remote = remotes_.begin(); remote != remotes_.end();) {
    remote->second.callers.erase(process.id);
    remote = remote->second.callers.empty() ? remotes_.erase(remote) : std::next(remote);
  }
}

void PeerLinks::remote_gone(NodeId node, ProcessId process, const proto::DeathRecord& death) {
  auto found = remotes_.find(process);
  if (found == remotes_.end() || found->second.node != node) return;
  for (ProcessId caller : found->second.callers) tell_gone(caller, process, death);
  remotes_.erase(found);
}

void PeerLinks::node_gone(NodeId node, const proto::DeathRecord& death) {
  std::vector<ProcessId> gone;
  for (const auto& [process, remote] : remotes_)
    if (remote.node == node) gone.push_back(process);
  for (ProcessId process : gone) remote_gone(node, process, death);
}

void PeerLinks::sweep() {
  std::vector<Key> closed;
  for (const auto& [key, link] : links_)
    if (link.closed.closed()) closed.push_back(key);
  for (const Key& key : closed) drop_link(key);
}

std::optional<uint32_t> PeerLinks::take_bit(ProcessId process) {
  auto& used = bits_[process];
  for (uint32_t bit = 0; bit < rpc::kDoorbellBits; ++bit) {
    if (used.test(bit)) continue;
    used.set(bit);
    return bit;
  }
  return std::nullopt;
}

void PeerLinks::drop_link(const Key& key) {
  auto found = links_.find(key);
  for (int side : {0, 1}) {
    auto used = bits_.find(found->second.sides[side]);
    if (used != bits_.end()) used->second.reset(found->second.bits[side]);
  }
  links_.erase(found);
}

void PeerLinks::tell_gone(ProcessId to, ProcessId gone, const proto::DeathRecord& death) {
  proto::ToWorker message;
  rpc::to_proto(gone, message.mutable_peer_gone()->mutable_process());
  *message.mutable_peer_gone()->mutable_death() = death;
  processes_.send(to, 0, message);
}

}  // namespace rayo::raylet
