#include "runtime/worker/peers.h"

#include <algorithm>

#include "runtime/base/text.h"
#include "runtime/rpc/data_header.h"
#include "runtime/rpc/tls_pump.h"
#include "runtime/worker/failure.h"

namespace rayo::worker {

void Peers::connect(const proto::ProcessAddress& address, CallOwner& owner) {
  const auto process = id_of<ProcessId>(address.process());
  if (process == self_.process) return owner.linked(kSelfPeer);
  owners_[&owner] = process;
  Entry& entry = entries_[process];
  if (std::find(entry.owners.begin(), entry.owners.end(), &owner) == entry.owners.end()) entry.owners.push_back(&owner);
  entry.address = address;
  const bool offered = idle_.offered(entry.link);
  if (entry.link != kNoPeer && !offered) return owner.linked(entry.link);
  if (entry.connecting) return;
  if (const PeerId called_by = link_of_remote(process); called_by != kNoPeer) return connected(process, called_by);
  entry.connecting = true;
  if (!offered) ask_for_link(process, address);
}

PeerId Peers::link_of_remote(const ProcessId& process) const {
  for (const auto& [peer, caller] : callers_)
    if (id_of<ProcessId>(caller.process()) == process && !id_of<NodeId>(caller.node()) && !by_peer_.contains(peer))
      return peer;
  return kNoPeer;
}

void Peers::ask_for_link(const ProcessId& process, const proto::ProcessAddress& address) {
  proto::ToRaylet message;
  *message.mutable_connect()->mutable_peer() = address;
  raylet_.request(message, [this, process](RayletLink::Answer answer, std::vector<base::Fd>& fds) {
    on_answer(process, answer, fds);
  });
}

void Peers::disconnect(CallOwner& owner) {
  auto found = owners_.find(&owner);
  if (found == owners_.end()) return;
  std::erase(entries_[found->second].owners, &owner);
  owners_.erase(found);
}

void Peers::on_answer(const ProcessId& process, RayletLink::Answer& answer, std::vector<base::Fd>& fds) {
  if (!answer.ok()) return refused(process, record_of(answer.status()));
  const proto::PeerLink& link = answer->peer_link();
  if (link.has_failure()) {
    if (link.failure().has_death()) on_gone(process, link.failure().death());
    return refused(process, record_of(link.failure()));
  }
  if (link.ring()) return on_link(link, fds);
  // Without a ring: it lives on another node, or the link came as a push before this answer.
  if (!link.peer().host_port().empty()) return dial(link.peer());
  if (Entry& entry = entries_[process]; entry.link != kNoPeer) return connected(process, entry.link);
  refused(process, error_record(ErrorKind::kUnavailable, "the raylet named no way to the process"));
}

base::StatusOr<PeerId> Peers::add_ring(const proto::PeerLink& link, std::vector<base::Fd>& fds) {
  if (fds.size() != 4)
    return base::failed(absl::StatusCode::kInternal,
                        base::cat("a ring came with ", fds.size(), " descriptors instead of 4"));
  RingLink ring;
  ring.memory = std::move(fds[0]);
  ring.first = link.first();
  ring.my_bit = link.my_bit();
  ring.peer_bit = link.peer_bit();
  ring.peer_bell = {std::move(fds[1]), std::move(fds[2]), std::move(fds[3])};
  return engine_.add_ring_peer(std::move(ring));
}

void Peers::on_link(const proto::PeerLink& link, std::vector<base::Fd>& fds) {
  const auto process = id_of<ProcessId>(link.peer().process());
  auto peer = add_ring(link, fds);
  if (!peer.ok()) return refused(process, record_of(peer.status()));
  callers_[*peer] = link.peer();
  idle_.opened(*peer, IdleLinks::Way::kRing);
  connected(process, *peer);
}

void Peers::connected(const ProcessId& process, PeerId peer) {
  Entry& entry = entries_[process];
  entry.link = peer;
  entry.connecting = false;
  by_peer_[peer] = process;
  look_later();
  for (CallOwner* owner : std::vector<CallOwner*>(entry.owners))
    if (owner->link() != peer) owner->linked(peer);
}

void Peers::refused(const ProcessId& process, const ErrorRecord& why) {
  Entry& entry = entries_[process];
  entry.connecting = false;
  for (CallOwner* owner : std::vector<CallOwner*>(entry.owners)) owner->link_failed(why);
}

void Peers::on_gone(const ProcessId& process, const proto::DeathRecord& death) {
  auto found = entries_.find(process);
  if (found == entries_.end()) return;
  for (CallOwner* owner : std::vector<CallOwner*>(found->second.owners)) owner->peer_gone(death);
}

void Peers::on_closed(PeerId peer) {
  if (idle_.offered(peer)) return forget_link(peer);
  callers_.erase(peer);
  idle_.closed(peer);
  auto found = by_peer_.find(peer);
  if (found == by_peer_.end()) return;
  const ProcessId process = found->second;
  by_peer_.erase(found);
  Entry& entry = entries_[process];
  if (entry.link != peer) return;
  entry.link = kNoPeer;
  for (CallOwner* owner : std::vector<CallOwner*>(entry.owners)) owner->link_lost();
  if (auto left = entries_.find(process);
      left != entries_.end() && left->second.owners.empty() && !left->second.connecting)
    entries_.erase(left);
}

// ---- links that nobody uses ----

std::vector<CallOwner*> Peers::owners_on(PeerId peer) const {
  std::vector<CallOwner*> owners = entries_.at(by_peer_.at(peer)).owners;
  std::erase_if(owners, [peer](const CallOwner* owner) { return owner->link() != peer; });
  return owners;
}

bool Peers::idle(PeerId peer) const {
  if (!by_peer_.contains(peer) || engine_.backlog(peer) != 0 || !idleness_.quiet(peer)) return false;
  const std::vector<CallOwner*> owners = owners_on(peer);
  return std::all_of(owners.begin(), owners.end(), [](const CallOwner* owner) { return owner->idle(); });
}

void Peers::look_later() {
  const base::TimePoint at = idle_.next_look(idleness_.clock.now());
  if (at == base::kForever || std::exchange(looking_, true)) return;
  idleness_.alarms.at(at, [this] {
    looking_ = false;
    look_for_idle();
    look_later();
  });
}

void Peers::look_for_idle() {
  const IdleLinks::Idle found = idle_.look(
      idleness_.clock.now(), [this](PeerId peer) { return engine_.last_used(peer); },
      [this](PeerId peer) { return idle(peer); });
  for (PeerId peer : found.offer) offer(peer);
  for (PeerId peer : found.close) give_up(peer);
}

void Peers::offer(PeerId peer) {
  for (CallOwner* owner : owners_on(peer)) owner->unlinked();
  rpc::FrameHeader header;
  header.kind = rpc::FrameKind::kLinkIdle;
  header.flags = rpc::kFlagUrgent;
  engine_.send(peer, header, {});
}

void Peers::on_idle(PeerId peer) {
  if (idle(peer)) return give_up(peer);
  rpc::FrameHeader header;
  header.kind = rpc::FrameKind::kLinkKept;
  header.flags = rpc::kFlagUrgent;
  engine_.send(peer, header, {});
}

void Peers::on_kept(PeerId peer) {
  if (!idle_.kept(peer)) return;
  connected(by_peer_.at(peer), peer);
}

void Peers::give_up(PeerId peer) {
  for (CallOwner* owner : owners_on(peer)) owner->unlinked();
  engine_.close(peer);
  forget_link(peer);
}

void Peers::forget_link(PeerId peer) {
  callers_.erase(peer);
  idle_.closed(peer);
  const ProcessId process = by_peer_.extract(peer).mapped();
  Entry& entry = entries_.at(process);
  if (entry.link != peer) return;  // there is a newer one
  entry.link = kNoPeer;
  if (entry.connecting)
    ask_for_link(process, entry.address);
  else if (entry.owners.empty())
    entries_.erase(process);
}

void Peers::dial(const proto::ProcessAddress& address) {
  const auto process = id_of<ProcessId>(address.process());
  const bool tls = address.machine() != self_.machine;
  const auto header = rpc::make_data_header(rpc::LinkKind::kCall, tls, rpc::id_bytes(process), self_.keys);
  dialer_.dial(address.host_port(), rpc::encode(header),
               [this, process, tls, nonce = header.nonce](base::StatusOr<base::Fd> socket) {
                 if (!socket.ok()) return refused(process, record_of(socket.status()));
                 std::unique_ptr<rpc::TlsPump> pump;
                 if (tls) pump = std::make_unique<rpc::TlsPump>(rpc::TlsPump::client(self_.keys.tls_key(nonce)));
                 dialled(process, engine_.add_tcp_peer(std::move(*socket), std::move(pump)));
               });
}

void Peers::dialled(const ProcessId& process, const base::StatusOr<PeerId>& peer) {
  if (!peer.ok()) return refused(process, record_of(peer.status()));
  introduce(*peer);
  idle_.opened(*peer, IdleLinks::Way::kTcp);
  connected(process, *peer);
}

void Peers::introduce(PeerId peer) {
  proto::ProcessAddress me;
  set_id(me.mutable_node(), self_.node);
  set_id(me.mutable_process(), self_.process);
  rpc::FrameHeader header;
  header.kind = rpc::FrameKind::kControl;
  const std::string body = me.SerializeAsString();
  engine_.send(peer, header, {std::as_bytes(std::span(body))});
}

void Peers::on_introduction(PeerId peer, Bytes body) {
  proto::ProcessAddress caller;
  if (!caller.ParseFromArray(body.data(), static_cast<int>(body.size()))) return;
  const auto process = id_of<ProcessId>(caller.process());
  std::vector<PeerId> older;
  for (const auto& [other, known] : callers_)
    if (other != peer && !by_peer_.contains(other) && id_of<ProcessId>(known.process()) == process)
      older.push_back(other);
  for (const PeerId other : older) drop(other);
  callers_[peer] = std::move(caller);
}

void Peers::drop(PeerId peer) {
  callers_.erase(peer);
  engine_.close(peer);
  dropped_(peer);
}

proto::ProcessAddress Peers::address_of(PeerId peer) const {
  auto found = callers_.find(peer);
  if (found != callers_.end()) return found->second;
  proto::ProcessAddress none;
  if (peer != kSelfPeer) return none;
  set_id(none.mutable_node(), self_.node);
  set_id(none.mutable_process(), self_.process);
  return none;
}

NodeId Peers::node_of(PeerId peer) const {
  if (peer == kSelfPeer) return self_.node;
  auto process = by_peer_.find(peer);
  return process == by_peer_.end() ? NodeId() : id_of<NodeId>(entries_.at(process->second).address.node());
}

void Peers::on_accepted(const proto::AcceptedPeer& accepted, std::vector<base::Fd>& fds) {
  if (fds.size() != 1) return;
  std::unique_ptr<rpc::TlsPump> tls;
  if (accepted.tls()) {
    rpc::Nonce nonce{};
    if (accepted.nonce().size() != nonce.size()) return;
    std::copy(accepted.nonce().begin(), accepted.nonce().end(), nonce.begin());
    tls = std::make_unique<rpc::TlsPump>(rpc::TlsPump::server(self_.keys.tls_key(nonce)));
  }
  const auto peer = engine_.add_tcp_peer(std::move(fds[0]), std::move(tls));
  if (!peer.ok()) return;
  // A header can be recorded, the key behind it cannot: who has not said by then who it is holds no descriptor any more.
  idleness_.alarms.at(idleness_.clock.now() + rpc::kHandshakeLimit, [this, peer = *peer] {
    if (!callers_.contains(peer)) drop(peer);
  });
}

}  // namespace rayo::worker
