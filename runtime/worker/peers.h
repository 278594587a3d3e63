// The ways from this process to others: one link for each, made when it is first wanted (a ring by the raylet, TCP to
// another node), shared by every actor client and lease that reaches that process, and by what reaches us from there.
//
// Owners that share a process are told together when its link breaks or its end is known. A link that nobody has used
// for long is given up (idle_links.h) and made again by the next call. Everything under the baton.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include <rayo/id.h>

#include "runtime/rpc/token.h"
#include "runtime/worker/alarms.h"
#include "runtime/worker/call_wire.h"
#include "runtime/worker/dialer.h"
#include "runtime/worker/idle_links.h"
#include "runtime/worker/raylet_link.h"

namespace rayo::worker {

// A frame to it goes to ourselves: an actor that calls itself or a neighbour in its own process.
inline constexpr PeerId kSelfPeer = ~PeerId{0};

class Peers {
 public:
  struct Self {
    NodeId node;  // nil: a remote driver, to which nothing can be given by an arena
    ProcessId process;
    std::string machine;
    rpc::LinkKeys keys;
  };
  // When links are given up: `quiet` says whether nothing that came by that link is under way here.
  struct Idleness {
    Alarms& alarms;
    const base::Clock& clock;
    base::Duration after = kIdleLink;
    std::function<bool(PeerId)> quiet;
  };
  Peers(Engine& engine, RayletLink& raylet, Self self, Idleness idleness)
      : engine_(engine),
        raylet_(raylet),
        self_(std::move(self)),
        idleness_(std::move(idleness)),
        idle_(idleness_.after),
        dialer_(engine) {}
  // Told of each link that came to us and that this closes: nothing of that peer comes any more, and the engine says nothing.
  void on_dropped(std::function<void(PeerId)> tell) { dropped_ = std::move(tell); }
  // Connections under way are given up; then no answer of theirs comes any more.
  void end() { dialer_.end(); }

  // owner.linked or owner.link_failed, perhaps at once; then link_lost and peer_gone until disconnect.
  void connect(const proto::ProcessAddress& address, CallOwner& owner);
  void disconnect(CallOwner& owner);

  // From the raylet: the other side wanted the link, or came in from another node.
  void on_link(const proto::PeerLink& link, std::vector<base::Fd>& fds);
  void on_accepted(const proto::AcceptedPeer& accepted, std::vector<base::Fd>& fds);
  // The first frame of a connection from another node says who it is. An older one of the same process is closed, so
  // that no call of it can start after one that was made later.
  void on_introduction(PeerId peer, Bytes body);
  // Nil where nobody said.
  proto::ProcessAddress address_of(PeerId peer) const;
  // Of the process that is called by that link; nil where it is called by none.
  NodeId node_of(PeerId peer) const;
  // The other side of a ring has no use for it / keeps it.
  void on_idle(PeerId peer);
  void on_kept(PeerId peer);
  void on_gone(const ProcessId& process, const proto::DeathRecord& death);
  // From the engine.
  void on_closed(PeerId peer);

  // Peers that called us and peers that we call.
  size_t count() const { return by_peer_.size(); }

 private:
  struct Entry {
    PeerId link = kNoPeer;
    bool connecting = false;  // or is to be, once the offered link is closed or kept
    proto::ProcessAddress address;
    std::vector<CallOwner*> owners;
  };

  // A remote driver cannot be dialled: a stream that it made is read on the link by which it called us, if it did.
  PeerId link_of_remote(const ProcessId& process) const;
  void ask_for_link(const ProcessId& process, const proto::ProcessAddress& address);
  std::vector<CallOwner*> owners_on(PeerId peer) const;
  bool idle(PeerId peer) const;
  void look_for_idle();
  void look_later();
  void offer(PeerId peer);
  // This side gives the link up: its owners are told, the engine forgets it.
  void give_up(PeerId peer);
  // It is gone by agreement: whoever wants one again gets a new one.
  void forget_link(PeerId peer);
  void drop(PeerId peer);
  void on_answer(const ProcessId& process, RayletLink::Answer& answer, std::vector<base::Fd>& fds);
  base::StatusOr<PeerId> add_ring(const proto::PeerLink& link, std::vector<base::Fd>& fds);
  void dial(const proto::ProcessAddress& address);
  void dialled(const ProcessId& process, const base::StatusOr<PeerId>& peer);
  void introduce(PeerId peer);
  void connected(const ProcessId& process, PeerId peer);
  void refused(const ProcessId& process, const ErrorRecord& why);

  Engine& engine_;
  RayletLink& raylet_;
  const Self self_;
  const Idleness idleness_;
  std::function<void(PeerId)> dropped_;
  IdleLinks idle_;
  bool looking_ = false;
  std::unordered_map<ProcessId, Entry> entries_;
  std::unordered_map<PeerId, ProcessId> by_peer_;
  std::unordered_map<PeerId, proto::ProcessAddress> callers_;  // whose calls come by that link
  std::unordered_map<CallOwner*, ProcessId> owners_;
  Dialer dialer_;
};

}  // namespace rayo::worker
