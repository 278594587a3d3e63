// The processes of this node that speak to this raylet: drivers, workers, zygotes. Who they are, the wire to
// each, and who is told when one ends. An end is told once, with the record that explains it, to every
// listener in the order in which they came.
//
//   processes.on_end([&](const LocalProcess& process, const proto::DeathRecord& death) {
//     links.process_gone(process, death);
//   });
//   processes.send(driver, call_id, reply);
//
// Loop thread only. Pointers are valid until the process ends.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <rayo/id.h>

#include "runtime/proto/head.pb.h"
#include "runtime/raylet/frame_wire.h"
#include "runtime/rpc/doorbell.h"

namespace rayo::raylet {

struct LocalProcess {
  ProcessId id;
  proto::ProcessKind kind = proto::PROCESS_UNSPECIFIED;
  JobId job;
  pid_t pid = 0;
  base::WallTime started{};
  std::string what;           // "actor Counter", "task half", a driver's program
  ActorId actor;              // hosts it
  uint32_t incarnation = 0;   // of that actor
  FrameWire* wire = nullptr;  // the session's; null before hello and after the connection has ended
  bool remote = false;        // a driver on another machine: no descriptors, no rings
  rpc::DoorbellFds doorbell_fds;
  std::optional<rpc::PeerDoorbell> doorbell;
  base::Path log;  // of a worker: its stdout's file
};

class Processes {
 public:
  using EndListener = std::function<void(const LocalProcess&, const proto::DeathRecord&)>;

  explicit Processes(NodeId node) : node_(node) {}

  LocalProcess& add(ProcessId id, proto::ProcessKind kind, JobId job);
  // A zygote that cannot fork becomes a worker.
  void set_kind(LocalProcess& process, proto::ProcessKind kind);
  LocalProcess* find(ProcessId id);
  void end(ProcessId id, const proto::DeathRecord& death);
  void on_end(EndListener listener) { listeners_.push_back(std::move(listener)); }
  // A process is there, or has become of another kind.
  void on_come(std::function<void()> listener) { on_come_ = std::move(listener); }
  // Of one that has ended not long ago.
  const proto::DeathRecord* death_of(ProcessId id) const;

  // False where nobody of that id listens any more: the message is dropped.
  bool send(ProcessId to, uint64_t call_id, const proto::ToWorker& message, std::vector<base::Fd> descriptors = {});

  NodeId node() const { return node_; }
  int count(proto::ProcessKind kind) const;
  std::vector<ProcessId> ids() const;
  // Living ones and the last dead ones, for the CLI; `state_of` names what a worker does.
  std::vector<proto::WorkerInfo> list(const std::function<std::string(ProcessId)>& state_of) const;

 private:
  proto::WorkerInfo describe(const LocalProcess& process, std::string state) const;

  NodeId node_;
  std::unordered_map<ProcessId, std::unique_ptr<LocalProcess>> processes_;
  std::deque<proto::WorkerInfo> dead_;  // the last ones
  std::vector<EndListener> listeners_;
  std::function<void()> on_come_ = [] {};
};

}  // namespace rayo::raylet
