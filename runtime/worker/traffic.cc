#include "runtime/worker/traffic.h"

#include <cstring>
#include <mutex>

#include "runtime/base/ids.h"
#include "runtime/worker/call_body.h"
#include "runtime/worker/call_notes.h"
#include "runtime/worker/failure.h"

namespace rayo::worker {

using Confirm = References::Confirm;

Traffic::Traffic(const Identity& identity, rpc::Doorbell doorbell, const base::Clock& clock, ProcessEvents events)
    : clock_(clock),
      own_{base::short_id(identity.node), base::short_id(identity.process), 0},
      events_(std::move(events)),
      engine_(*this, std::move(doorbell), clock),
      raylet_(engine_, clock),
      arena_(engine_, raylet_),
      references_(raylet_, arena_),
      table_(own_.home, own_.process, references_),
      peers_(engine_, raylet_,
             {identity.remote ? NodeId{} : identity.node, identity.process, identity.machine, identity.keys},
             {alarms_, clock, identity.idle_link,
              [this](PeerId peer) {
                return host_.quiet(peer) && !confirming_.contains(peer) && !streams_.writes_to(peer);
              }}),
      host_({engine_, raylet_, arena_, table_, references_, history_,
             [this](PeerId peer, const rpc::FrameHeader& header, std::span<const Bytes> parts) {
               return send(peer, header, parts);
             },
             [this](PeerId peer) { return peers_.address_of(peer); }}),
      actors_(table_, *this),
      tasks_(table_, *this),
      streams_(stream_wires()) {
  references_.bind(table_);
  peers_.on_dropped([this](PeerId peer) {
    served_no_more(peer);
    finish_turn_soon();
  });
  references_.on_unheld([this](const ObjectId& marker) { streams_.on_unheld(marker); });
  references_.on_last_handle([this](const ActorId& actor) { let_go_of_last(actor); });
  turn_.traffic = this;
  turn_.run = [](Posted* posted) {
    auto* turn = static_cast<Turn*>(posted);
    turn->posted.exchange(false);  // before it looks at what was let go: whoever sees true after that is looked after
    if (!turn->traffic->closed_) turn->traffic->finish_turn();
  };
}

Traffic::~Traffic() {
  std::lock_guard hold(engine_.baton());
  closed_ = true;
  peers_.end();
}

void Traffic::close() {
  {
    std::lock_guard hold(engine_.baton());
    closed_ = true;
    raylet_.leave();
    peers_.end();
    engine_.wake();
  }
  engine_.stop();
  std::lock_guard hold(engine_.baton());
  table_.drain();
  arena_.close(table_.reads_arena());
}

void Traffic::finish_turn_soon() {
  if (!turn_.posted.load() && !turn_.posted.exchange(true)) engine_.post(&turn_);
}

void Traffic::finish_turn() {
  settle_references();
  engine_.flush();
}

void Traffic::finish_call() {
  settle_references();
  engine_.flush_rings();
}

void Traffic::settle_references() {
  if (table_.has_released()) table_.drain();
  if (references_.dirty()) references_.flush();
}

StreamWires Traffic::stream_wires() {
  return {.calls = *this,
          .table = table_,
          .adopt = [this](const ObjectId& id) -> ObjectSlot& {
            const bool known = table_.find(id) != nullptr;
            ObjectSlot& slot = table_.adopt(id);
            if (!known) references_.hold(slot);
            return slot;
          },
          .confirm =
              [this](std::function<void()> known) {
                references_.flush_and_confirm(Confirm::kActorsToo, [this, known = std::move(known)] {
                  known();
                  engine_.flush();
                });
              },
          .backlog = [this](PeerId peer) { return engine_.backlog(peer); },
          .look_up = [this](const ActorId& actor, uint64_t number) { look_up_maker(actor, number); },
          .after = [this](base::Duration span,
                          std::function<void()> run) { alarms_.at(clock_.now() + span, std::move(run)); }};
}

void Traffic::look_up_maker(const ActorId& actor, uint64_t number) {
  proto::ToRaylet message;
  set_id(message.mutable_watch_actor()->mutable_actor(), actor);
  raylet_.request(message, [this, actor, number](RayletLink::Answer answer, std::vector<base::Fd>&) {
    if (!actors_.find(actor)) {  // nobody else here wants to hear of it
      proto::ToRaylet enough;
      set_id(enough.mutable_unwatch_actor()->mutable_actor(), actor);
      raylet_.push(enough);
    }
    if (answer.ok() && !failure_in(*answer)) streams_.on_maker(number, answer->actor_reply().actor());
  });
}

// ---- frames of peers ----

bool Traffic::send(PeerId peer, const rpc::FrameHeader& header, std::span<const Bytes> parts) {
  if (peer != kSelfPeer) return engine_.send(peer, header, parts);
  std::vector<std::byte> body;
  for (const Bytes& part : parts) body.insert(body.end(), part.begin(), part.end());
  rpc::FrameHeader whole = header;
  whole.length = static_cast<uint32_t>(body.size());
  on_frame(kSelfPeer, whole, body);
  engine_.wake();
  return true;
}

void Traffic::on_frame(PeerId peer, const rpc::FrameHeader& header, Bytes body) {
  if (closed_) return;
  switch (header.kind) {
    case rpc::FrameKind::kCall:
      return host_.on_call(peer, header, body);
    case rpc::FrameKind::kReply:
      return on_reply(peer, header, body);
    case rpc::FrameKind::kCancel:
      if (header.function & rpc::kCancelTakeBack) return host_.on_take_back(peer, header.call_id);
      return host_.on_cancel(peer, header.call_id, header.function);
    case rpc::FrameKind::kRefsTaken:
      host_.on_refs_taken(peer, header.call_id);
      if (!host_.has_work()) finish_turn();  // else whoever does it
      return;
    case rpc::FrameKind::kControl:
      return peers_.on_introduction(peer, body);
    case rpc::FrameKind::kLinkIdle:
      return peers_.on_idle(peer);
    case rpc::FrameKind::kLinkKept:
      return peers_.on_kept(peer);
    case rpc::FrameKind::kProbe:
      if (events_.on_probe) events_.on_probe(peer, header.call_id, body);
      return;
    case rpc::FrameKind::kStreamOpen:
    case rpc::FrameKind::kStreamItem:
    case rpc::FrameKind::kStreamCredit:
    case rpc::FrameKind::kStreamEnd:
    case rpc::FrameKind::kStreamCancel:
      return streams_.on_frame(peer, header, body);
    default:
      return;  // of a later version
  }
}

void Traffic::on_reply(PeerId peer, const rpc::FrameHeader& header, Bytes body) {
  if (header.flags & rpc::kFlagReturned) return tasks_.on_returned(peer, header.call_id);
  ObjectSlot* slot = table_.own(header.call_id);
  // Too late (it was cancelled), or an answer to a question that this peer was never asked.
  if (slot && (!slot->owner || slot->owner->link() != peer)) slot = nullptr;
  CallOwner* owner = slot ? slot->owner : nullptr;
  const bool goes_on = header.flags & rpc::kFlagMore;  // who runs the call is not free yet
  if (header.flags & kSectionFlags) {
    on_reply_with_refs(peer, header, body, slot);
  } else if (!slot) {
    if (!goes_on) tasks_.on_late_reply(peer, header.call_id, header.ran_us);
    return;
  } else if (header.flags & rpc::kFlagFailure) {
    proto::Failure failure;
    if (!failure.ParseFromArray(body.data(), static_cast<int>(body.size())))
      failure.set_text("a failure that cannot be read");
    table_.fail(*slot, record_of(failure));
  } else if (header.flags & rpc::kFlagInArena) {
    int64_t size = -1;  // which is nobody's: told of as lost
    if (body.size() == sizeof size) std::memcpy(&size, body.data(), sizeof size);
    references_.resolve_result(*slot, {peers_.node_of(peer), size});
  } else {
    table_.fulfil(*slot, body);
  }
  if (owner) goes_on ? owner->given_up(header.call_id) : owner->answered(header.call_id, header.ran_us);
}

// Refs inside the value: ours from now on, and once our raylet knows the callee may let go of them.
void Traffic::on_reply_with_refs(PeerId peer, const rpc::FrameHeader& header, Bytes body, ObjectSlot* slot) {
  auto view = read_body(header.flags, body);
  if (!view) {
    if (slot)
      table_.fail(*slot, error_record(ErrorKind::kInternal, "a reply arrived whose sections do not fit its body"));
    return;
  }
  if (!slot && !(header.flags & rpc::kFlagMore)) tasks_.on_late_reply(peer, header.call_id, header.ran_us);
  if (slot) {
    Inner inner;
    for (const ObjectId& id : view->refs) {
      const bool known = table_.find(id) != nullptr;
      ObjectSlot& ref = table_.adopt(id);
      if (!known) references_.hold(ref);
      inner.refs.push_back(ref.handle());
    }
    if (!view->actors.empty()) inner.actors = std::make_unique<std::vector<ActorId>>(view->actors);
    retain_actors(view->actors);
    table_.fulfil(*slot, view->rest, std::move(inner));
  }
  if (view->refs.empty() && view->actors.empty()) return;
  ++confirming_[peer];
  const auto what = view->actors.empty() ? Confirm::kObjects : Confirm::kActorsToo;
  references_.flush_and_confirm(what, [this, peer, call_id = header.call_id] {
    if (auto confirmed = confirming_.find(peer); --confirmed->second == 0) confirming_.erase(confirmed);
    rpc::FrameHeader taken;
    taken.kind = rpc::FrameKind::kRefsTaken;
    taken.call_id = call_id;
    send(peer, taken, {});
    engine_.flush();
  });
}

void Traffic::on_peer_closed(PeerId peer, const base::Status&) {
  if (closed_) return;
  served_no_more(peer);
  peers_.on_closed(peer);
  finish_turn();
}

void Traffic::served_no_more(PeerId peer) {
  host_.on_peer_closed(peer);
  streams_.on_peer_closed(peer);
}

void Traffic::on_deadline(base::TimePoint now) {
  if (closed_) return;
  alarms_.ring(now);
  finish_turn();
}

// ---- the raylet ----

void Traffic::on_raylet_frame(const rpc::FrameHeader& header, Bytes body, std::vector<base::Fd>& fds) {
  if (closed_) return;
  proto::ToWorker message;
  if (!message.ParseFromArray(body.data(), static_cast<int>(body.size()))) return;
  if (!raylet_.on_answer(header.call_id, message, fds)) on_push(message, fds);
  finish_turn();
}

void Traffic::on_push(proto::ToWorker& message, std::vector<base::Fd>& fds) {
  using M = proto::ToWorker;
  switch (message.message_case()) {
    case M::kActor:
      return actors_.on_info(message.actor());
    case M::kPeerLink:
      return peers_.on_link(message.peer_link(), fds);
    case M::kAcceptedPeer:
      return peers_.on_accepted(message.accepted_peer(), fds);
    case M::kPeerGone:
      return peers_.on_gone(id_of<ProcessId>(message.peer_gone().process()), message.peer_gone().death());
    case M::kHostActor:
      return host_.on_host_actor(message.host_actor());
    case M::kHostTasks:
      return host_.on_host_tasks(message.host_tasks());
    case M::kLeaseGranted:
      return tasks_.on_granted(message.lease_granted());
    case M::kLogLines:
      if (events_.on_log_lines) events_.on_log_lines(message.log_lines());
      return;
    case M::kNotice:
      if (events_.on_notice) events_.on_notice(message.notice());
      return;
    case M::kObjectUnheld:
      return streams_.on_unheld(id_of(message.object_unheld().object()));
    case M::kObjectWanted:
      return references_.wanted(id_of(message.object_wanted().object()));
    case M::kTellCalls:
      return tell_calls(message.tell_calls());
    case M::kExit:
      if (events_.on_exit) events_.on_exit(message.exit().reason());
      return;
    default:
      return;  // of a later version
  }
}

void Traffic::tell_calls(const proto::TellCalls& request) {
  proto::ToRaylet message;
  *message.mutable_calls_told() = call_notes({history_, ticks_, table_, own_}, request.most());
  message.mutable_calls_told()->set_question(request.question());
  raylet_.push(message);
}

void Traffic::on_raylet_closed(const base::Status& why) {
  if (closed_) return;
  raylet_.on_closed(why);
  const ErrorRecord record = record_of(raylet_.why_closed());
  actors_.on_failure(record);
  tasks_.on_failure(record);
  streams_.on_failure(record);
  if (events_.on_exit) events_.on_exit("its raylet is gone");
}

// ---- CallWire ----

void Traffic::retain_actors(std::span<const ActorId> actors) {
  for (const ActorId& actor : actors) references_.retain_actor(actor);
}

void Traffic::disconnect(CallOwner& owner) {
  peers_.disconnect(owner);
  auto [first, last] = wakes_.equal_range(&owner);
  for (auto at = first; at != last; ++at) alarms_.cancel(at->second);
  wakes_.erase(first, last);
}

void Traffic::wake_at(base::TimePoint at, CallOwner& owner) {
  auto entry = wakes_.emplace(&owner, 0);
  entry->second = alarms_.at(at, [this, entry, &owner] {
    wakes_.erase(entry);
    owner.on_deadline(clock_.now());
  });
}

void Traffic::watch_actor(const ActorId& actor) {
  proto::ToRaylet message;
  set_id(message.mutable_watch_actor()->mutable_actor(), actor);
  raylet_.request(message, [this, actor](RayletLink::Answer answer, std::vector<base::Fd>&) {
    ActorClient* client = actors_.find(actor);
    if (!client) return;
    if (!answer.ok()) return client->on_failure(record_of(answer.status()));
    if (const proto::Failure* failure = failure_in(*answer)) return client->on_failure(record_of(*failure));
    client->on_info(answer->actor_reply().actor());
  });
}

void Traffic::let_go_of_actor(const ActorId& actor) {
  ActorClient* client = actors_.find(actor);
  if (client && !client->idle() && references_.actor_handles(actor) == 1) return client->part();
  if (!references_.release_actor(actor) || !client) return;
  actors_.forget(actor);
  proto::ToRaylet message;
  set_id(message.mutable_unwatch_actor()->mutable_actor(), actor);
  raylet_.push(message);
}

void Traffic::let_go_of_last(const ActorId& actor) {
  if (closed_ || !actors_.find(actor))
    references_.release_actor(actor);
  else
    went_idle(actor);
}

// Not at once: the client is in the middle of something.
void Traffic::went_idle(const ActorId& actor) {
  alarms_.at(base::TimePoint(), [this, actor] { let_go_of_actor(actor); });
}

void Traffic::request_leases(const proto::RequestLeases& request) {
  proto::ToRaylet message;
  *message.mutable_request_leases() = request;
  raylet_.push(message);
}

void Traffic::return_lease(const LeaseId& lease, GiveBack how) {
  proto::ToRaylet message;
  set_id(message.mutable_return_lease()->mutable_lease(), lease);
  message.mutable_return_lease()->set_worker_suspect(how == GiveBack::kSuspect);
  message.mutable_return_lease()->set_retire(how == GiveBack::kRetired);
  raylet_.push(message);
}

}  // namespace rayo::worker
