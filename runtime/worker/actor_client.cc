#include "runtime/worker/actor_client.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/text.h"
#include "runtime/worker/failure.h"

namespace rayo::worker {

namespace {
// How long a broken link waits for the reason: longer than a node takes to be known as dead (design: 10 s).
constexpr base::Duration kVerdict = std::chrono::seconds(15);
// A link that could not be made is tried again after this, as long as the actor is said to be alive.
constexpr base::Duration kRetry = std::chrono::milliseconds(200);
// How long after the news of a death the link may still hand over replies; its own end comes sooner as a rule.
constexpr base::Duration kLastReplies = std::chrono::milliseconds(30);
}  // namespace

ActorClient::~ActorClient() {
  let_go_of_arguments();
  wire_.disconnect(*this);  // whatever state it is in: nobody may tell it anything any more
}

std::string ActorClient::who() const { return base::cat(class_name_, " (", actor_.hex().substr(0, 8), ")"); }

rpc::FrameHeader ActorClient::header() const {
  rpc::FrameHeader header;
  header.kind = rpc::FrameKind::kCall;
  header.target = base::short_id(actor_);
  header.incarnation = incarnation_;
  header.sequence = sequence_ + 1;
  return header;
}

bool ActorClient::call_now(ObjectSlot& result, const internal::CallRequest& request) {
  if (!may_send() || !queue_.empty() || call_retries_ != 0) return false;
  if (!request.refs.empty() || !request.inner_refs.empty() || !request.inner_actors.empty()) return false;
  rpc::FrameHeader frame = header();
  frame.call_id = result.id.counter;
  frame.function = request.function;
  if (!wire_.send(link_, frame, {&request.arguments, 1})) return false;
  ++sequence_;
  ++outstanding_;
  result.call = true;
  result.owner = this;
  return true;
}

void ActorClient::submit(std::unique_ptr<OutgoingCall> call) {
  call->result.call = true;
  if (state_ == State::kDead) {
    table_.fail(call->result, why_);
    return;
  }
  OutgoingCall& queued = *call;
  queue_.push_back(std::move(call));
  queued.await_arguments([this] { pump(); });
  pump();
}

std::unique_ptr<OutgoingCall> ActorClient::withdraw(const ObjectSlot& result) {
  auto found = std::find_if(queue_.begin(), queue_.end(), [&](const auto& call) { return &call->result == &result; });
  if (found == queue_.end()) return nullptr;
  std::unique_ptr<OutgoingCall> call = std::move(*found);
  queue_.erase(found);
  pump();  // those behind it may have waited for its arguments
  look_whether_idle();
  return call;
}

// One call, not from within itself: filling a result may end another call's wait and come back here.
void ActorClient::pump() {
  if (pumping_) return;
  if (state_ == State::kUnlinked && !queue_.empty() && queue_.front()->ready()) return link_to_address();
  pumping_ = true;
  while (!queue_.empty() && queue_.front()->ready() && send_front()) {
  }
  pumping_ = false;
}

// True where the front is dealt with, sent or failed.
bool ActorClient::send_front() {
  OutgoingCall& call = *queue_.front();
  if (call.result.ready()) {  // its time passed while it waited
    queue_.pop_front();
    return true;
  }
  if (const ErrorRecord* error = call.failed_argument()) {
    std::unique_ptr<OutgoingCall> failed = std::move(queue_.front());
    queue_.pop_front();
    table_.fail(failed->result, *error);
    return true;
  }
  if (!may_send() || outstanding_ >= kWindow) return false;
  const bool again = call_retries_ < 0 || call.times_sent < call_retries_;
  if (!call.send(link_, header(), again)) return false;
  ++sequence_;
  ++outstanding_;
  call.result.owner = this;
  std::unique_ptr<OutgoingCall> sent = std::move(queue_.front());
  queue_.pop_front();
  const uint64_t id = sent->result.id.counter;
  if (again && !sent->result.ready()) kept_.insert_or_assign(id, Kept{sequence_, std::move(sent)});
  return true;
}

void ActorClient::answered(uint64_t call_id, uint64_t) {
  --outstanding_;
  if (call_retries_ != 0) kept_.erase(call_id);
  if (!queue_.empty()) pump();
  look_whether_idle();
}

void ActorClient::link_to_address() {
  state_ = State::kLinking;
  wire_.connect(address_, *this);
}

// It died before it was ever alive. What its constructor threw is the reason of a death; other reasons stand for
// themselves.
static ErrorRecord never_started(std::string_view who, const proto::ActorInfo& info) {
  ErrorRecord record = record_of(info.failure());
  if (record.kind != ErrorKind::kTask) return record;
  record.kind = ErrorKind::kActorDied;
  record.text = base::cat("actor ", who, " is dead: its constructor failed: ", record.text);
  if (!record.death) record.death = death_of(info.death());
  record.death->kind = DeathKind::kStartFailed;
  return record;
}

void ActorClient::on_info(const proto::ActorInfo& info) {
  if (state_ == State::kDead) return;
  if (!info.class_name().empty()) class_name_ = info.class_name();
  switch (info.state()) {
    case proto::ALIVE:
      on_alive(info);
      return;
    case proto::RESTARTING:
      end_life(actor_died(who(), info.death()), false);
      return;
    case proto::DEAD:
      end_life(info.has_failure() ? never_started(who(), info) : actor_died(who(), info.death()), true);
      return;
    default:
      return;
  }
}

void ActorClient::keep_arguments(Inner named, bool may_restart) {
  named_ = std::move(named);
  may_restart_ = may_restart;
}

void ActorClient::let_go_of_arguments() {
  for (const internal::ObjectHandle& ref : named_.refs) table_.release(slot_of(ref));
  if (named_.actors) wire_.release_actors(*named_.actors);
  named_ = {};
}

void ActorClient::on_alive(const proto::ActorInfo& info) {
  const bool same = info.incarnation() == incarnation_;
  // Of the same life there is nothing new, and old news where its end is known already.
  if (same && (state_ != State::kNowhere || ended_)) return;
  if (!same && incarnation_ != 0) {  // the first that is heard of ends none
    end_life(actor_died(who(), info.death()), false);
    apply_last_word();
  }
  if (!same) sequence_ = 0;
  if (!may_restart_) let_go_of_arguments();
  ended_ = false;
  call_retries_ = info.max_call_retries();
  limit_pending(info.max_pending_calls());
  incarnation_ = info.incarnation();
  address_ = info.address();
  link_to_address();
}

void ActorClient::on_failure(const ErrorRecord& why) {
  end_life(why, true);
  apply_last_word();
}

void ActorClient::linked(PeerId peer) {
  // A new way to the same life: what was under way on the old one has no answer to come (2).
  if (outstanding_ != 0)
    fail_outstanding(error_record(ErrorKind::kUnavailable,
                                  base::cat("call to actor ", who(), ": the connection broke before the reply came"),
                                  "the call may or may not have run; the actor is alive"));
  link_ = peer;
  state_ = State::kReady;
  deadline_ = base::kForever;
  pump();
}

void ActorClient::link_failed(const ErrorRecord& why) {
  if (state_ != State::kLinking && state_ != State::kLost) return;
  if (deadline_ == base::kForever) deadline_ = wire_.now() + kVerdict;
  state_ = State::kLost;
  why_ = why;
  wire_.watch_actor(actor_);
  wire_.wake_at(wire_.now() + kRetry, *this);
}

void ActorClient::link_lost() {
  if (state_ != State::kReady) return;
  link_ = kNoPeer;
  if (last_word_) return apply_last_word();
  state_ = State::kLost;
  link_failed(error_record(ErrorKind::kUnavailable, base::cat("call to actor ", who(), ": the connection broke"),
                           "`rayo status` shows whether its node is alive"));
}

void ActorClient::unlinked() {
  if (state_ != State::kReady) return;
  link_ = kNoPeer;
  state_ = State::kUnlinked;
  if (last_word_) apply_last_word();
}

// Whether it is dead or to be restarted the next ActorInfo says; calls that were never sent wait for it.
void ActorClient::peer_gone(const proto::DeathRecord& death) {
  if (state_ == State::kDead) return;
  ErrorRecord why = actor_died(who(), death);
  why.death->incarnation = incarnation_;
  end_life(std::move(why), false);
}

void ActorClient::on_deadline(base::TimePoint now) {
  if (last_word_) return apply_last_word();
  if (state_ != State::kLost) return;
  if (now < deadline_) return link_to_address();
  deadline_ = base::kForever;
  state_ = State::kNowhere;
  const ErrorRecord why = why_;
  fail_outstanding(why);
  auto queued = std::exchange(queue_, {});
  for (auto& call : queued) table_.fail(call->result, why);
  wire_.watch_actor(actor_);
}

void ActorClient::unlink() {
  wire_.disconnect(*this);
  link_ = kNoPeer;
}

// In the order in which they were made, before those that were made later.
void ActorClient::take_back_kept() {
  std::vector<Kept> again;
  for (auto& [id, kept] : std::exchange(kept_, {})) again.push_back(std::move(kept));
  std::sort(again.begin(), again.end(), [](const Kept& a, const Kept& b) { return a.sequence > b.sequence; });
  outstanding_ -= static_cast<uint32_t>(again.size());
  for (Kept& kept : again) {
    kept.call->take_back();
    queue_.push_front(std::move(kept.call));
  }
}

void ActorClient::fail_outstanding(const ErrorRecord& why) {
  if (outstanding_ == 0) return;
  outstanding_ = 0;
  const auto kept = std::exchange(kept_, {});
  table_.for_each_owned(this, [&](ObjectSlot& slot) { table_.fail(slot, why); });
}

void ActorClient::end_life(ErrorRecord why, bool for_good) {
  ended_ = true;
  for_good_ = for_good_ || for_good;
  // The first record is the closest to the event; a final one says more.
  if (!last_word_ || for_good) last_word_ = std::move(why);
  if (state_ == State::kReady) {
    wire_.wake_at(wire_.now() + kLastReplies, *this);
    return;
  }
  apply_last_word();
}

void ActorClient::apply_last_word() {
  if (!last_word_) return;
  const ErrorRecord why = *std::exchange(last_word_, std::nullopt);
  ++lives_ended_;
  unlink();
  deadline_ = base::kForever;
  state_ = for_good_ ? State::kDead : State::kNowhere;
  if (!for_good_) take_back_kept();
  fail_outstanding(why);
  if (!for_good_) return look_whether_idle();
  let_go_of_arguments();
  why_ = why;
  auto queued = std::exchange(queue_, {});
  for (auto& call : queued) table_.fail(call->result, why_);
  look_whether_idle();
}

}  // namespace rayo::worker
