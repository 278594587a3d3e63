// The raylet's part in objects: what local processes publish and ask for, and what other nodes ask this one
// as a home.
//
// A handler never blocks: an answer that is not known yet is sent by the service itself when it is, through
// the ObjectWires that it was given. All on the loop thread. Answers go to the process that asked; where that
// is gone they fall away.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <rayo/id.h>

#include "runtime/base/fd.h"
#include "runtime/base/loop/loop.h"
#include "runtime/base/status.h"
#include "runtime/proto/raylet.pb.h"
#include "runtime/proto/worker.pb.h"

namespace rayo::raylet {

class Transfer;

// What the service needs of the rest of the raylet. Implemented by the shell (object_wires.h); a test gives
// its own.
class ObjectWires {
 public:
  virtual ~ObjectWires() = default;
  // One frame to a local process; call_id 0 is a push. Dropped where the process is gone.
  virtual void send(ProcessId to, uint64_t call_id, const proto::ToWorker& message) = 0;
  virtual NodeId own_node() const = 0;
  // The live node whose short id stands in an object's id; nil where it is dead, or the head has not told of it (yet).
  virtual NodeId node_of(uint64_t short_node) const = 0;
  virtual const proto::DeathRecord* death_of(uint64_t short_node) const = 0;  // null: it is not known to be dead
  virtual std::string data_address_of(NodeId node) const = 0;
  virtual bool same_machine(NodeId node) const = 0;  // then data connections go without TLS
  // gRPC to another raylet: `done` runs on the loop thread. A status: it did not answer.
  virtual void ask_object(NodeId home, const proto::AskObjectRequest& request,
                          std::function<void(base::StatusOr<proto::AskObjectReply>)> done) = 0;
  virtual void hold_objects(NodeId home, const proto::HoldObjectsRequest& request,
                            std::function<void(proto::HoldObjectsReply)> done) = 0;  // UNAVAILABLE: no answer
  virtual void drop_copies(NodeId holder, const proto::DropCopiesRequest& request,
                           std::function<void(bool answered)> done) = 0;
};

class ObjectService {
 public:
  virtual ~ObjectService() = default;

  // ---- local processes: the frames of worker.proto; call_id is the request's ----
  // With a call id it is answered with Done once the homes know.
  virtual void hold_refs(ProcessId from, uint64_t call_id, const proto::HoldRefs& request) = 0;
  virtual void publish(ProcessId from, const proto::PublishObject& request) = 0;
  virtual void resolve(ProcessId from, uint64_t call_id, const proto::ResolveObject& request) = 0;
  virtual void cancel_resolve(ProcessId from, const proto::CancelResolve& request) = 0;
  virtual void create(ProcessId from, uint64_t call_id, const proto::CreateObject& request) = 0;
  virtual void seal(ProcessId from, uint64_t call_id, const proto::SealObject& request) = 0;
  // For processes without an arena: a piece of a sealed object that an answer pinned for them.
  virtual void read(ProcessId from, uint64_t call_id, const proto::ReadObject& request) = 0;
  virtual void release(ProcessId from, const proto::ReleaseObject& request) = 0;

  // The arena that HelloReply hands over; bytes 0: there is none. The descriptor stays the service's.
  struct Arena {
    int64_t bytes = 0;
    int fd = -1;
  };
  virtual Arena arena() const = 0;
  virtual int64_t used_bytes() const = 0;
  // What this node knows of each object; who made it is not filled in.
  virtual std::vector<proto::ObjectInfo> list() const = 0;
  virtual void on_used_changed(std::function<void()> listener) = 0;
  // Handles of actors that lie in values of this node's objects: held as long as those are kept, by the raylet itself.
  virtual void on_inner_actors(std::function<void(const proto::HoldRefs&)> listener) = 0;

  // ---- other raylets ----
  // `done` runs once, perhaps later, unless the ask is cancelled before.
  virtual uint64_t ask(const proto::AskObjectRequest& request, std::function<void(proto::AskObjectReply)> done) = 0;
  virtual void cancel_ask(uint64_t ask) = 0;  // of one that is answered: nothing
  virtual proto::HoldObjectsReply hold(const proto::HoldObjectsRequest& request) = 0;
  virtual proto::Done drop_copies(const proto::DropCopiesRequest& request) = 0;

  // ---- beginnings and ends ----
  virtual void process_joined(ProcessId process) = 0;
  // A local process was reaped or left: its references, unsealed space and unanswered requests go; what it
  // minted and had not published fails with ObjectLost and this record.
  virtual void process_gone(ProcessId process, const proto::DeathRecord& death) = 0;
  virtual void node_gone(NodeId node, const proto::DeathRecord& death) = 0;
};

// Over object_store::Directory, with large values in the arena and pulled from their holders by `transfer`.
// `loop` runs its sweep. An arena of 0 bytes: large values stay in the messages.
base::StatusOr<std::unique_ptr<ObjectService>> make_object_service(ObjectWires& wires, base::Loop& loop,
                                                                   Transfer& transfer, int64_t arena_bytes);

}  // namespace rayo::raylet
