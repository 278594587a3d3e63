// Where frames and news arrive and go to those who deal with them: replies to their slots, calls to the host, the
// raylet's pushes to actor clients, task client, peers and host. The engine's sink, and the wire of everything here
// that decides without I/O.
//
// Everything under the baton.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <string>

#include "runtime/worker/actor_clients.h"
#include "runtime/worker/alarms.h"
#include "runtime/worker/arena_store.h"
#include "runtime/worker/call_history.h"
#include "runtime/worker/call_host.h"
#include "runtime/worker/call_wire.h"
#include "runtime/worker/object_table.h"
#include "runtime/worker/peers.h"
#include "runtime/worker/raylet_link.h"
#include "runtime/worker/references.h"
#include "runtime/worker/streams.h"
#include "runtime/worker/task_client.h"

namespace rayo::worker {

// What only a driver or only a worker does with a push. Under the baton, in the sink's callback.
struct ProcessEvents {
  std::function<void(const proto::LogLines&)> on_log_lines;
  std::function<void(const proto::Notice&)> on_notice;
  std::function<void(const std::string& reason)> on_exit;  // also: the raylet is gone
  std::function<void(PeerId, uint64_t call_id, ByteView)> on_probe;
};

class Traffic : public Sink, public CallWire {
 public:
  struct Identity {
    NodeId node;
    ProcessId process;
    std::string machine;
    rpc::LinkKeys keys;
    bool remote = false;  // a driver without a raylet on its machine
    base::Duration idle_link = kIdleLink;
  };
  // `doorbell` is the one that the raylet was told of; attach the raylet's socket to engine() next.
  Traffic(const Identity& identity, rpc::Doorbell doorbell, const base::Clock& clock, ProcessEvents events);
  ~Traffic() override;

  // The end, once nobody makes calls any more: thread, descriptors and mappings go. What handles of the user still read
  // stays. Not with the baton held.
  void close();

  Engine& engine() { return engine_; }
  RayletLink& raylet() { return raylet_; }
  ArenaStore& arena() { return arena_; }
  ObjectTable& table() { return table_; }
  References& references() { return references_; }
  ActorClients& actors() { return actors_; }
  TaskClient& tasks() { return tasks_; }
  CallHost& host() { return host_; }
  Streams& streams() { return streams_; }
  Alarms& alarms() { return alarms_; }
  CallHistory& history() { return history_; }
  const base::Clock& clock() const { return clock_; }
  ProcessEvents& events() { return events_; }

  // What was put off during a turn: released slots, the batch for the raylet, frames.
  void finish_turn();
  // The same between two of many calls that are run in a row (Engine::flush_rings).
  void finish_call();
  // Any thread, lock-free: a turn soon, for a handle that was dropped and that the raylet has to hear of.
  void finish_turn_soon();

  // A handle of the user is dropped. The last one is kept until the calls made by it have ended: they are to run.
  void let_go_of_actor(const ActorId& actor);

  // Sink
  void on_frame(PeerId peer, const rpc::FrameHeader& header, Bytes body) override;
  void on_peer_closed(PeerId peer, const base::Status& why) override;
  void on_raylet_frame(const rpc::FrameHeader& header, Bytes body, std::vector<base::Fd>& fds) override;
  void on_raylet_closed(const base::Status& why) override;
  base::TimePoint next_deadline() override { return alarms_.next(); }
  void on_deadline(base::TimePoint now) override;
  bool outstanding() override { return !closed_ && table_.live() != 0; }

  // CallWire
  bool send(PeerId peer, const rpc::FrameHeader& header, std::span<const Bytes> parts) override;
  void connect(const proto::ProcessAddress& address, CallOwner& owner) override { peers_.connect(address, owner); }
  void disconnect(CallOwner& owner) override;
  void share(ObjectSlot& slot) override { references_.share(slot); }
  void retain_actors(std::span<const ActorId> actors) override;
  void release_actors(std::span<const ActorId> actors) override { references_.release_actors(actors); }
  void watch_actor(const ActorId& actor) override;
  void went_idle(const ActorId& actor) override;
  void request_leases(const proto::RequestLeases& request) override;
  void return_lease(const LeaseId& lease, GiveBack how) override;
  base::TimePoint now() const override { return clock_.now(); }
  void wake_at(base::TimePoint at, CallOwner& owner) override;

 private:
  void settle_references();
  // The same as let_go_of_actor, from where a client may be in the middle of something.
  void let_go_of_last(const ActorId& actor);
  // What was kept for that peer, until it took it, goes.
  void served_no_more(PeerId peer);
  void on_reply(PeerId peer, const rpc::FrameHeader& header, Bytes body);
  void on_reply_with_refs(PeerId peer, const rpc::FrameHeader& header, Bytes body, ObjectSlot* slot);
  void on_push(proto::ToWorker& message, std::vector<base::Fd>& fds);
  StreamWires stream_wires();
  void tell_calls(const proto::TellCalls& request);
  void look_up_maker(const ActorId& actor, uint64_t number);

  struct Turn : Posted {
    Traffic* traffic = nullptr;
    std::atomic<bool> posted{false};
  };

  const base::Clock& clock_;
  const base::TickClock ticks_{clock_};
  const ObjectId own_;  // node and process, as they stand in the ids of objects minted here
  CallHistory history_;
  ProcessEvents events_;
  Alarms alarms_;
  std::multimap<CallOwner*, Alarms::Number> wakes_;  // its iterators stay valid
  Turn turn_;
  std::unordered_map<PeerId, int> confirming_;  // refs of their replies that our raylet is being told of
  bool closed_ = false;  // what stands below the engine is going: its service thread finds nothing to do any more
  Engine engine_;
  RayletLink raylet_;
  ArenaStore arena_;
  References references_;
  ObjectTable table_;
  Peers peers_;
  CallHost host_;
  ActorClients actors_;
  TaskClient tasks_;
  Streams streams_;
};

}  // namespace rayo::worker
