// Ways between processes: a pair of rings for two on this node (made and closed here), a data connection for
// one on another node (accepted at this node's port and handed on). And the news of a peer's end: when a
// process is reaped, its rings are marked closed, the doorbells of its peers are rung and each is told with
// the record.
//
//   links.connect(from, call_id, request.peer());           // answered with PeerLink
//
// Loop thread only.
#pragma once

#include <bitset>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>

#include <rayo/id.h>

#include "runtime/raylet/processes.h"
#include "runtime/rpc/data_header.h"
#include "runtime/rpc/ring.h"

namespace rayo::raylet {

class PeerLinks {
 public:
  struct Remote {  // what is known of another node
    std::string host_port;
    std::string data_host_port;  // --data-interface; may be empty
    std::string machine;
    const proto::DeathRecord* death = nullptr;  // it is dead
  };
  using FindNode = std::function<std::optional<Remote>(NodeId)>;

  PeerLinks(Processes& processes, FindNode find_node);
  ~PeerLinks();

  void connect(ProcessId from, uint64_t call_id, const proto::Connect& request);
  // Two processes of this node get a way that neither has asked for: who waits for an actor will call it. Where it is
  // not possible nothing happens, and connect() says why.
  void introduce(ProcessId from, ProcessId to);

  // A connection of kind call from another machine: its header is checked by the caller. False: no such
  // process here.
  bool accepted(base::Fd socket, const rpc::DataHeader& header);

  // A process of another node ended, as that node says / a node did, with all of its processes.
  void remote_gone(NodeId node, ProcessId process, const proto::DeathRecord& death);
  void node_gone(NodeId node, const proto::DeathRecord& death);

  // Forgets links that their processes have closed for want of use: their memory and bits are free again.
  void sweep();

  int links() const { return static_cast<int>(links_.size()); }

 private:
  struct Link {
    ProcessId sides[2];     // sides[0] writes ring 0
    uint32_t bits[2] = {};  // bits[i]: the bit of sides[1 - i] in the doorbell of sides[i]
    rpc::ClosedMark closed;
  };
  using Key = std::pair<ProcessId, ProcessId>;  // the smaller id first
  struct RemotePeer {
    NodeId node;
    std::set<ProcessId> callers;  // here
  };

  void process_gone(const LocalProcess& process, const proto::DeathRecord& death);
  static Key key_of(ProcessId a, ProcessId b) { return a < b ? Key{a, b} : Key{b, a}; }
  void connect_here(LocalProcess& from, uint64_t call_id, LocalProcess& to);
  base::Status make_link(LocalProcess& from, uint64_t call_id, LocalProcess& to);
  void connect_away(LocalProcess& from, uint64_t call_id, const proto::ProcessAddress& peer);
  void refuse(ProcessId from, uint64_t call_id, const proto::ProcessAddress& peer, proto::Failure failure);
  void send_link(const LocalProcess& to, uint64_t call_id, const LocalProcess& peer, const Link& link,
                 std::vector<base::Fd> descriptors);
  std::optional<uint32_t> take_bit(ProcessId process);
  void drop_link(const Key& key);
  void tell_gone(ProcessId to, ProcessId gone, const proto::DeathRecord& death);

  Processes& processes_;
  FindNode find_node_;
  std::map<Key, Link> links_;
  std::unordered_map<ProcessId, std::bitset<rpc::kDoorbellBits>> bits_;  // in use
  std::map<ProcessId, RemotePeer> remotes_;
};

}  // namespace rayo::raylet
