// This process's calls to one actor: where it lives, in which order they leave, what becomes of them when it dies.
// Decides and does no I/O (CallWire does).
//
// Invariants
//  1. Calls leave in the order in which they were made; one that waits (arguments, address, room) holds up those behind
//  it.
//  2. A call that may have been received is not sent to the same life again: it ends with a reply, or with the error of what
//  broke. Where the actor's max_call_retries allows it, one whose life ended is sent to the next, before those made later.
//  3. Sequence numbers count from 1 in each incarnation, without gaps over one link.
//  4. A reply that was sent before the death counts: the end of the link is awaited before the death record is
//  believed.
//  5. Every call ends: with the reply, with the death record, with the failure of the start, with a broken connection.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "runtime/worker/call_wire.h"
#include "runtime/worker/outgoing_call.h"

namespace rayo::worker {

class ActorClient : public CallOwner {
 public:
  ActorClient(ActorId actor, std::string class_name, ObjectTable& table, CallWire& wire)
      : actor_(actor), class_name_(std::move(class_name)), table_(table), wire_(wire) {}
  ~ActorClient() override;

  // Calls that neither wait for arguments nor for anything else; `result` is a fresh pending slot. False: use submit.
  bool call_now(ObjectSlot& result, const internal::CallRequest& request);
  void submit(std::unique_ptr<OutgoingCall> call);
  // A call that has not been sent never will be; null where there is none with that result.
  std::unique_ptr<OutgoingCall> withdraw(const ObjectSlot& result);

  // Whether one more call may be made; false: the caller waits until it is true, or gives up with Backpressure.
  bool room() const { return outstanding_ + queue_.size() < kWindow; }
  bool dead() const { return state_ == State::kDead; }
  // As many calls as its max_pending_calls allows; 0 there: no limit. Its maker knows it from the start.
  bool full() const { return max_pending_ != 0 && outstanding_ + queue_.size() >= max_pending_; }
  uint32_t max_pending() const { return max_pending_; }
  void limit_pending(int calls) { max_pending_ = static_cast<uint32_t>(calls); }
  // The control store knows the actor, so its handles may leave this process. False between spawn and the head's answer.
  bool registered() const { return registered_; }
  void set_registered(bool yes) { registered_ = yes; }
  // Its last life that was heard of; 0: none.
  uint32_t incarnation() const { return incarnation_; }
  // How often a life of it was seen to end.
  uint32_t lives_ended() const { return lives_ended_; }
  bool idle() const override { return outstanding_ == 0 && queue_.empty(); }
  uint32_t outstanding() const { return outstanding_; }
  // The last handle is gone: CallWire::went_idle when idle() turns true.
  void part() { parting_ = true; }

  // What the constructor's arguments name, counted: kept until the constructor cannot run (again).
  void keep_arguments(Inner named, bool may_restart);
  // What the control store knows of it, as often as it changes.
  void on_info(const proto::ActorInfo& info);
  // It will never live (CreateActor failed) or nobody can tell (the raylet is gone).
  void on_failure(const ErrorRecord& why);

  PeerId link() const override { return link_; }
  void answered(uint64_t call_id, uint64_t ran_us) override;
  void given_up(uint64_t call_id) override { answered(call_id, 0); }
  void linked(PeerId peer) override;
  void link_failed(const ErrorRecord& why) override;
  void link_lost() override;
  void unlinked() override;
  void peer_gone(const proto::DeathRecord& death) override;
  void on_deadline(base::TimePoint now) override;
  std::string who() const override;

  const ActorId& id() const { return actor_; }
  const std::string& class_name() const { return class_name_; }

 private:
  enum class State {
    kNowhere,  // not placed yet, starting or restarting: calls wait
    kLinking,
    kReady,
    kUnlinked,  // alive, and not called for long
    kLost,      // the link broke and nobody said why yet
    kDead,
  };

  rpc::FrameHeader header() const;
  bool may_send() const { return state_ == State::kReady; }
  void on_alive(const proto::ActorInfo& info);
  void link_to_address();
  void let_go_of_arguments();
  void pump();
  bool send_front();
  void take_back_kept();
  void unlink();
  void look_whether_idle() {
    if (parting_ && idle()) parting_ = false, wire_.went_idle(actor_);
  }
  void fail_outstanding(const ErrorRecord& why);
  void end_life(ErrorRecord why, bool for_good);
  void apply_last_word();

  const ActorId actor_;
  std::string class_name_;
  ObjectTable& table_;
  CallWire& wire_;
  State state_ = State::kNowhere;
  uint32_t incarnation_ = 0;
  proto::ProcessAddress address_;
  PeerId link_ = kNoPeer;
  uint64_t sequence_ = 0;
  uint32_t outstanding_ = 0;
  std::deque<std::unique_ptr<OutgoingCall>> queue_;
  struct Kept {
    uint64_t sequence;
    std::unique_ptr<OutgoingCall> call;
  };
  std::unordered_map<uint64_t, Kept> kept_;    // under way, by call id: may be sent to the next life
  int call_retries_ = 0;                       // < 0: without end
  uint32_t max_pending_ = 0;                   // 0: no limit
  base::TimePoint deadline_ = base::kForever;  // of kLost, or of the last word
  bool pumping_ = false;
  bool parting_ = false;
  Inner named_;  // of the constructor
  bool may_restart_ = false;
  uint32_t lives_ended_ = 0;
  bool registered_ = true;
  bool ended_ = false;                    // this incarnation, so far as told
  bool for_good_ = false;                 // of last_word_: it does not come back
  std::optional<ErrorRecord> last_word_;  // how it ended, while replies of before may still be in the link
  ErrorRecord why_;                       // of kLost and kDead
};

}  // namespace rayo::worker
