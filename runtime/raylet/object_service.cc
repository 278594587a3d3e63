#include "runtime/raylet/object_service.h"

#include <algorithm>
#include <unistd.h>
#include <unordered_map>

#include "object_store/arena.h"
#include "object_store/directory.h"
#include "runtime/base/ids.h"
#include "runtime/base/text.h"
#include "runtime/raylet/copy_outbox.h"
#include "runtime/raylet/head_link.h"
#include "runtime/raylet/home_outbox.h"
#include "runtime/raylet/inner_holds.h"
#include "runtime/raylet/patience.h"
#include "runtime/raylet/transfer.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::raylet {
namespace {

using object_store::Action;
using object_store::Directory;
using object_store::Known;
using object_store::Ticket;

// The key that stands for the raylet itself where it pins what it sends, and holds what lies in values.
constexpr object_store::ProcessKey kRaylet = 0;
// Of a ReadObject: what one turn of the loop copies and one frame holds.
constexpr int64_t kLargestPiece = 4 << 20;
// Of a node that does not answer, or of which the head has not told, while nobody says that it is dead: a connection that
// broke, a head that is away for a moment.
constexpr base::Duration kPatience = std::chrono::seconds(30);

// Of what lies in the arena its seal has told, with the size that it has there.
std::optional<Known> known_of(const proto::PublishObject& message) {
  Known known;
  if (message.pending() || message.in_arena()) return std::nullopt;
  if (message.has_failure()) {
    known.kind = Known::Kind::kFailure;
    known.failure = message.failure();
  } else {
    known.value = message.value();
  }
  return known;
}

InnerHolds::Inside inside_of(const proto::PublishObject& message) {
  InnerHolds::Inside inside;
  for (const auto& ref : message.inner()) inside.refs.push_back(rpc::from_proto(ref));
  for (const auto& actor : message.inner_actors()) inside.actors.push_back(rpc::from_proto<ActorId>(actor));
  return inside;
}

const char* state_text(const std::optional<Known::Kind>& kind) {
  if (!kind) return "pending";
  if (*kind == Known::Kind::kFailure) return "failed";
  return *kind == Known::Kind::kArena ? "arena" : "value";
}

class Service final : public ObjectService {
 public:
  Service(ObjectWires& wires, base::Loop& loop, Transfer& transfer, std::optional<object_store::Arena> arena)
      : wires_(wires),
        transfer_(transfer),
        arena_(std::move(arena)),
        self_(base::short_id(wires.own_node())),
        directory_(self_, arena_ ? arena_->size_bytes() : 0, base::system_clock()),
        outbox_(wires.own_node(), [this](uint64_t home, const auto& request) { send_to_home(home, request); }),
        copies_(wires.own_node(), [this](uint64_t holder, const auto& request) { send_to_holder(holder, request); }),
        retry_(loop.every(std::chrono::seconds(1), [this] { retry(); })),
        sweep_(loop.every(Directory::kLastLinger, [this] { sweep(); })) {
    transfer_.find_with([this](const ObjectId& object) { return lend(object); });
  }

  // ---- local processes ----

  void hold_refs(ProcessId from, uint64_t call_id, const proto::HoldRefs& request) override {
    for (const auto& object : request.held()) directory_.hold(key(from), rpc::from_proto(object));
    for (const auto& object : request.dropped()) directory_.drop(key(from), rpc::from_proto(object));
    settle();
    if (call_id == 0) return;
    proto::ToWorker done;
    done.mutable_done();
    wires_.send(from, call_id, done);
  }

  // Of the sender's own objects, whose home is here.
  void publish(ProcessId from, const proto::PublishObject& request) override {
    const ObjectId object = rpc::from_proto(request.object());
    if (object.home != self_ || object.process != key(from)) return;
    if (request.gone()) {
      directory_.disowned(key(from), object);
      return settle();
    }
    InnerHolds::Inside inside = inside_of(request);
    directory_.publish(key(from), object, known_of(request), request.tell_unheld() || !inside.empty());
    if (request.tell_unheld()) watched_[object] = from;
    hold_inside(inner_.keep(object, std::move(inside)));
    settle();
  }

  std::vector<proto::ObjectInfo> list() const override {
    std::vector<proto::ObjectInfo> out;
    for (const Directory::Listed& one : directory_.list()) {
      proto::ObjectInfo& info = out.emplace_back();
      *info.mutable_object() = rpc::to_proto(one.object);
      info.set_state(state_text(one.kind));
      info.set_size_bytes(one.size_bytes);
      if (one.here) rpc::to_proto(wires_.own_node(), info.add_copies());
      info.set_references(static_cast<int32_t>(one.holders));
      info.set_pins(static_cast<int32_t>(one.pins));
      info.set_failure(one.failure);
    }
    return out;
  }

  void resolve(ProcessId from, uint64_t call_id, const proto::ResolveObject& request) override {
    Ticket ticket = ++last_ticket_;
    ObjectId object = rpc::from_proto(request.object());
    askers_[ticket] = Asker{from, call_id, object, {}, {}};
    if (request.has_sealed_on()) {
      const uint64_t node = base::short_id(rpc::from_proto<NodeId>(request.sealed_on()));
      directory_.result_sealed(key(from), object, node, request.sealed_bytes(), wires_.death_of(node));
    }
    directory_.resolve(ticket, object, request.fetch(), key(from));
    settle();
  }

  void cancel_resolve(ProcessId from, const proto::CancelResolve& request) override {
    for (auto asker = askers_.begin(); asker != askers_.end(); ++asker) {
      if (asker->second.process != from || asker->second.call_id != request.call_id()) continue;
      directory_.cancel(asker->first, asker->second.object);
      askers_.erase(asker);
      return;
    }
  }

  void create(ProcessId from, uint64_t call_id, const proto::CreateObject& request) override {
    ObjectId object = rpc::from_proto(request.object());
    auto offset = directory_.create(key(from), object, request.size_bytes());
    if (!offset) {
      directory_.sweep();
      offset = directory_.create(key(from), object, request.size_bytes());
    }
    proto::ToWorker answer;
    if (offset) {
      answer.mutable_object_space()->set_offset_bytes(*offset);
    } else {
      proto::Failure* failure = answer.mutable_object_space()->mutable_failure();
      failure->set_kind(proto::OUT_OF_MEMORY_ERROR);
      failure->set_text(base::cat("an object of ", request.size_bytes(), " bytes does not fit the arena: ",
                                  directory_.used_bytes(), " of ", directory_.capacity_bytes(), " bytes are used"));
      failure->set_next_step(
          "drop refs that are no longer needed, or start the node with a larger --object-store-memory");
    }
    wires_.send(from, call_id, answer);
    settle();
  }

  void seal(ProcessId from, uint64_t call_id, const proto::SealObject& request) override {
    ObjectId object = rpc::from_proto(request.object());
    request.abort() ? directory_.abort(key(from), object) : directory_.seal(key(from), object);
    if (call_id != 0) {
      proto::ToWorker answer;
      answer.mutable_done();
      wires_.send(from, call_id, answer);
    }
    settle();
  }

  void read(ProcessId from, uint64_t call_id, const proto::ReadObject& request) override {
    proto::ToWorker answer;
    proto::ObjectPiece& piece = *answer.mutable_object_piece();
    auto extent = directory_.sealed(rpc::from_proto(request.object()));
    const int64_t offset = request.offset_bytes(), size = request.size_bytes();
    if (!extent || offset < 0 || size < 0 || size > kLargestPiece || offset > extent->size_bytes - size) {
      piece.mutable_failure()->set_kind(proto::INVALID);
      piece.mutable_failure()->set_text("these bytes of the object are not in this node's arena");
    } else {
      piece.mutable_data()->resize(static_cast<size_t>(size));
      const ssize_t got =
          ::pread(arena_->fd(), piece.mutable_data()->data(), piece.data().size(), extent->offset + offset);
      piece.mutable_data()->resize(static_cast<size_t>(std::max<ssize_t>(0, got)));
    }
    wires_.send(from, call_id, answer);
  }

  void release(ProcessId from, const proto::ReleaseObject& request) override {
    directory_.unpin(key(from), rpc::from_proto(request.object()));
  }

  Arena arena() const override { return arena_ ? Arena{arena_->size_bytes(), arena_->fd()} : Arena{}; }
  int64_t used_bytes() const override { return directory_.used_bytes(); }
  void on_used_changed(std::function<void()> listener) override { used_changed_ = std::move(listener); }
  void on_inner_actors(std::function<void(const proto::HoldRefs&)> listener) override {
    inner_actors_ = std::move(listener);
  }

  // ---- other raylets ----

  uint64_t ask(const proto::AskObjectRequest& request, std::function<void(proto::AskObjectReply)> done) override {
    Ticket ticket = ++last_ticket_;
    ObjectId object = rpc::from_proto(request.object());
    askers_[ticket] = Asker{{}, 0, object, rpc::from_proto<NodeId>(request.node()), std::move(done)};
    directory_.asked(ticket, object, {request.avoid().begin(), request.avoid().end()});
    settle();
    return ticket;
  }

  void cancel_ask(uint64_t ask) override {
    auto asker = askers_.extract(ask);
    if (asker) directory_.cancel(ask, asker.mapped().object);
  }

  proto::HoldObjectsReply hold(const proto::HoldObjectsRequest& request) override {
    auto node = base::short_id(rpc::from_proto<NodeId>(request.node()));
    uint64_t& last = last_number_[node];
    if (request.number() <= last) return {};  // sent twice
    last = request.number();
    for (const auto& object : request.held()) directory_.node_hold(node, rpc::from_proto(object));
    for (const auto& copy : request.copies())
      directory_.node_has_copy(node, rpc::from_proto(copy.object()), copy.size_bytes());
    for (const auto& object : request.dropped()) directory_.node_drop(node, rpc::from_proto(object));
    for (const auto& object : request.copies_dropped()) directory_.node_lost_copy(node, rpc::from_proto(object));
    settle();
    return {};
  }

  proto::Done drop_copies(const proto::DropCopiesRequest& request) override {
    for (const auto& object : request.objects()) directory_.copy_dropped(rpc::from_proto(object));
    settle();
    return {};
  }

  // ---- beginnings and ends ----

  void process_joined(ProcessId process) override {
    processes_[key(process)] = process;
    directory_.process_joined(key(process));
  }

  void process_gone(ProcessId process, const proto::DeathRecord& death) override {
    std::erase_if(askers_, [&](const auto& asker) { return asker.second.process == process; });
    std::erase_if(watched_, [&](const auto& watched) { return watched.second == process; });
    processes_.erase(key(process));
    directory_.process_died(key(process), death);
    settle();
  }

  void node_gone(NodeId node, const proto::DeathRecord& death) override {
    outbox_.node_gone(base::short_id(node));
    copies_.node_gone(base::short_id(node));
    last_number_.erase(base::short_id(node));
    end_asks_of(node);
    directory_.node_died(base::short_id(node), death);
    settle();
  }

 private:
  struct Asker {
    ProcessId process;  // nil: another node, through `done`
    uint64_t call_id = 0;
    ObjectId object;
    NodeId node;  // that other one
    std::function<void(proto::AskObjectReply)> done;
  };

  void end_asks_of(const NodeId& node) {
    std::vector<Ticket> asks;
    for (const auto& [ticket, asker] : askers_)
      if (asker.node == node) asks.push_back(ticket);
    proto::AskObjectReply nobody;
    nobody.mutable_failure()->set_kind(proto::UNAVAILABLE);
    nobody.mutable_failure()->set_text("the node that asked is dead");
    for (Ticket ticket : asks) {
      auto done = askers_[ticket].done;
      cancel_ask(ticket);
      done(nobody);
    }
  }

  static object_store::ProcessKey key(const ProcessId& process) { return base::short_id(process); }

  void sweep() {
    directory_.sweep();
    for (const auto& piece : directory_.take_cold()) arena_->discard(piece.offset, piece.size_bytes);
    settle();
  }

  // Carries out what the last event asked for.
  void settle() {
    for (auto actions = directory_.take_actions(); !actions.empty(); actions = directory_.take_actions()) {
      for (const Action& action : actions) carry_out(action);
    }
    if (std::exchange(told_used_, used_bytes()) != used_bytes()) used_changed_();
  }

  void carry_out(const Action& action) {
    switch (action.kind) {
      case Action::Kind::kAnswer:
        return answer(action);
      case Action::Kind::kAskHome:
        return ask_home(action);
      case Action::Kind::kTellHome:
        if (!action.copy) return outbox_.hold(action.object, action.held);
        return outbox_.copy(action.object, action.held ? std::optional(action.known.size_bytes) : std::nullopt);
      case Action::Kind::kPull:
        return pull(action);
      case Action::Kind::kDropCopy:
        return copies_.gone(action.node, action.object);
      case Action::Kind::kUnheld:
        drop_inside(inner_.let_go(action.object));
        return tell_unheld(action.object);
      case Action::Kind::kAskMinter:
        return ask_minter(action.object);
    }
  }

  void ask_minter(const ObjectId& object) {
    auto minter = processes_.find(object.process);
    if (minter == processes_.end()) return;  // its end has answered who waits
    proto::ToWorker message;
    *message.mutable_object_wanted()->mutable_object() = rpc::to_proto(object);
    wires_.send(minter->second, 0, message);
  }

  void hold_inside(const InnerHolds::Inside& inside) {
    for (const ObjectId& ref : inside.refs) directory_.hold(kRaylet, ref);
    proto::HoldRefs handles;
    for (const ActorId& actor : inside.actors) rpc::to_proto(actor, handles.add_actors_held());
    if (!inside.actors.empty()) inner_actors_(handles);
  }

  void drop_inside(const InnerHolds::Inside& inside) {
    for (const ObjectId& ref : inside.refs) directory_.drop(kRaylet, ref);
    proto::HoldRefs handles;
    for (const ActorId& actor : inside.actors) rpc::to_proto(actor, handles.add_actors_dropped());
    if (!inside.actors.empty()) inner_actors_(handles);
  }

  void tell_unheld(const ObjectId& object) {
    auto watched = watched_.extract(object);
    if (!watched) return;  // its process has gone
    proto::ToWorker message;
    *message.mutable_object_unheld()->mutable_object() = rpc::to_proto(object);
    wires_.send(watched.mapped(), 0, message);
  }

  void answer(const Action& action) {
    auto found = askers_.find(action.ticket);
    if (found == askers_.end()) return;  // its process has gone
    Asker asker = std::move(found->second);
    askers_.erase(found);
    if (asker.done) return asker.done(reply_to_node(action.known));
    proto::ToWorker message;
    proto::ObjectValue* value = message.mutable_object_value();
    value->set_ready(true);
    switch (action.known.kind) {
      case Known::Kind::kFailure:
        *value->mutable_failure() = action.known.failure;
        break;
      case Known::Kind::kValue:
        value->set_value(action.known.value);
        break;
      case Known::Kind::kArena:
        value->set_in_arena(true);
        value->set_size_bytes(action.known.size_bytes);
        value->set_offset_bytes(action.offset.value_or(-1));
        break;
    }
    wires_.send(asker.process, asker.call_id, message);
  }

  proto::AskObjectReply reply_to_node(const Known& known) const {
    proto::AskObjectReply reply;
    switch (known.kind) {
      case Known::Kind::kFailure:
        *reply.mutable_failure() = known.failure;
        break;
      case Known::Kind::kValue:
        reply.set_value(known.value);
        break;
      case Known::Kind::kArena: {
        reply.set_in_arena(true);
        reply.set_size_bytes(known.size_bytes);
        rpc::to_proto(known.holder == self_ ? wires_.own_node() : wires_.node_of(known.holder), reply.mutable_holder());
        break;
      }
    }
    return reply;
  }

  void retry() {
    outbox_.retry();
    copies_.retry();
    for (const Action& action : std::exchange(again_.actions, {})) carry_out(action);
    settle();
  }

  void ask_home(const Action& action) {
    const ObjectId& object = action.object;
    NodeId home = wires_.node_of(object.home);
    if (!home) return no_answer(action, unavailable(object, "the head has not told of the node where it was minted"));
    proto::AskObjectRequest request;
    *request.mutable_object() = rpc::to_proto(object);
    rpc::to_proto(wires_.own_node(), request.mutable_node());
    request.mutable_avoid()->Add(action.avoid.begin(), action.avoid.end());
    wires_.ask_object(home, request, [this, action, object](const base::StatusOr<proto::AskObjectReply>& answer) {
      if (!answer.ok()) {
        no_answer(action, failure_of(answer.status()));
        return settle();
      }
      const proto::AskObjectReply& reply = *answer;
      again_.objects.end(object);
      Known known;
      if (reply.has_failure()) {
        known.kind = Known::Kind::kFailure;
        known.failure = reply.failure();
      } else if (reply.in_arena()) {
        known.kind = Known::Kind::kArena;
        known.size_bytes = reply.size_bytes();
        known.holder = base::short_id(rpc::from_proto<NodeId>(reply.holder()));
      } else {
        known.value = reply.value();
      }
      directory_.home_answered(object, known);
      settle();
    });
  }

  void no_answer(const Action& action, const proto::Failure& why) {
    const ObjectId& object = action.object;
    if (const proto::DeathRecord* death = wires_.death_of(object.home)) {
      again_.objects.end(object);
      Known known;
      known.kind = Known::Kind::kFailure;
      known.failure = lost(object, "the node where it was minted is gone", *death);
      return directory_.home_answered(object, known);
    }
    if (again_.objects.again(object, base::system_clock().now())) return again_.actions.push_back(action);
    proto::Failure failure = why;
    failure.set_kind(proto::UNAVAILABLE);
    directory_.home_failed(object, failure);
  }

  static proto::Failure lost(const ObjectId& object, std::string_view why, const proto::DeathRecord& death) {
    proto::Failure failure;
    failure.set_kind(proto::OBJECT_LOST);
    failure.set_text(base::cat("object ", object.hex(), " is lost: ", why));
    *failure.mutable_death() = death;
    return failure;
  }

  static proto::Failure unavailable(const ObjectId& object, std::string_view why) {
    proto::Failure failure;
    failure.set_kind(proto::UNAVAILABLE);
    failure.set_text(base::cat("object ", object.hex(), " cannot be had: ", why));
    failure.set_next_step("`rayo status` shows whether the head answers");
    return failure;
  }

  void pull(const Action& action) {
    ObjectId object = action.object;
    NodeId holder = wires_.node_of(action.node);
    if (!holder) {
      if (const proto::DeathRecord* death = wires_.death_of(action.node))
        return directory_.pulled(object, lost(object, "the node that had it is gone", *death));
      if (again_.objects.again(object, base::system_clock().now())) return again_.actions.push_back(action);
      return directory_.pulled(object, unavailable(object, "the head has not told of the node that has it"));
    }
    again_.objects.end(object);
    transfer_.pull({.object = object,
                    .holder = wires_.data_address_of(holder),
                    .tls = !wires_.same_machine(holder),
                    .offset = *action.offset,
                    .size_bytes = action.known.size_bytes},
                   [this, object](const std::optional<proto::Failure>& failure) {
                     directory_.pulled(object, failure);
                     settle();
                   });
  }

  void send_to_home(uint64_t home, const proto::HoldObjectsRequest& request) {
    NodeId node = wires_.node_of(home);
    if (!node && !wires_.death_of(home) && again_.homes.again(home, base::system_clock().now()))
      return outbox_.failed(home, request.number());
    again_.homes.end(home);
    if (!node) return outbox_.node_gone(home);
    wires_.hold_objects(node, request, [this, home, number = request.number()](const proto::HoldObjectsReply& reply) {
      reply.has_failure() ? outbox_.failed(home, number) : outbox_.acknowledged(home, number);
    });
  }

  void send_to_holder(uint64_t holder, const proto::DropCopiesRequest& request) {
    NodeId node = wires_.node_of(holder);
    if (!node && !wires_.death_of(holder) && again_.holders.again(holder, base::system_clock().now()))
      return copies_.failed(holder);
    again_.holders.end(holder);
    if (!node) return copies_.node_gone(holder);
    wires_.drop_copies(node, request, [this, holder](bool answered) {
      answered ? copies_.acknowledged(holder) : copies_.failed(holder);
    });
  }

  // For a pull by another node: pinned under the raylet's own key until it is sent.
  std::optional<Outgoing> lend(const ObjectId& object) {
    auto extent = directory_.sealed(object);
    if (!extent) return std::nullopt;
    directory_.pin(kRaylet, object);
    std::shared_ptr<const void> pin(this, [object](Service* service) {
      service->directory_.unpin(kRaylet, object);
      service->settle();
    });
    return Outgoing{extent->offset, extent->size_bytes, std::move(pin)};
  }

  ObjectWires& wires_;
  Transfer& transfer_;
  std::optional<object_store::Arena> arena_;
  const uint64_t self_;
  Directory directory_;
  HomeOutbox outbox_;
  CopyOutbox copies_;
  InnerHolds inner_;
  struct {
    Patience<ObjectId> objects{kPatience};
    Patience<uint64_t> homes{kPatience};
    Patience<uint64_t> holders{kPatience};
    std::vector<Action> actions;  // at the next turn of retry_
  } again_;
  std::unordered_map<object_store::ProcessKey, ProcessId> processes_;
  std::unordered_map<Ticket, Asker> askers_;
  std::unordered_map<ObjectId, ProcessId> watched_;     // by whom: ObjectUnheld is due
  std::unordered_map<uint64_t, uint64_t> last_number_;  // of each node's HoldObjects
  Ticket last_ticket_ = 0;
  int64_t told_used_ = 0;
  std::function<void()> used_changed_ = [] {};
  std::function<void(const proto::HoldRefs&)> inner_actors_ = [](const proto::HoldRefs&) {};
  base::Timer retry_;
  base::Timer sweep_;
};

}  // namespace

base::StatusOr<std::unique_ptr<ObjectService>> make_object_service(ObjectWires& wires, base::Loop& loop,
                                                                   Transfer& transfer, int64_t arena_bytes) {
  std::optional<object_store::Arena> arena;
  if (arena_bytes > 0) {
    RAYO_ASSIGN_OR_RETURN(arena, object_store::Arena::create(arena_bytes));
    RAYO_RETURN_IF_ERROR(transfer.use_arena(arena->fd(), arena->size_bytes()));
  }
  return std::make_unique<Service>(wires, loop, transfer, std::move(arena));
}

}  // namespace rayo::raylet
