// Which replica works on which request. Decides only: events go in, actions come out, time is an argument.
//
//   for (Action& action : router.submit(ticket, prompt, now)) perform(action);
//
// Rules:
//  1. A request goes to the least loaded of the replicas that hold the longest prefix of its prompt; where those have
//     no free slot and another one has, to that one.
//  2. Health is by answers: a ready replica that has not answered for `suspect_after` is suspect, gets nothing new, and
//     its requests are moved as soon as another one is ready. One whose process ended loses them at once.
//  3. A request that loses its replica is sent again, whatever it has produced: who performs kSend adds the tokens so
//     far. Until there is a ready replica it waits, at most `patience`.
//  4. Each sending is an attempt with a number of its own: what an older attempt still says is nobody's.
//  5. A request that lost `most_attempts` replicas is not given to another: it may be what kills them.
//  6. One that hangs (pace.h) gets something new only where no other one takes it.
//  7. While no replica is ready a new request is refused (503, with the progress of loading); when every one is full,
//     too (429). Only what was accepted waits.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "examples/llm_serving/gateway/api_error.h"
#include "examples/llm_serving/gateway/pace.h"
#include "examples/llm_serving/gateway/prefix_index.h"
#include "examples/llm_serving/protocol.h"

namespace serving::gateway {

using ReplicaId = int32_t;
using Ticket = uint64_t;   // a request, as the gateway knows it
using Attempt = uint64_t;  // one sending of it: Request::id

struct Action {
  enum class Kind { kSend, kCancel, kFail };
  Kind kind = Kind::kSend;
  Ticket ticket = 0;      // of kSend, kFail
  ReplicaId replica = 0;  // of kSend, kCancel
  Attempt attempt = 0;    // of kSend, kCancel
  ApiError error;         // of kFail: what its client is told
};
using Actions = std::vector<Action>;

struct RouterOptions {
  std::chrono::milliseconds suspect_after{3000};  // a node's death is passed over within 6 s
  std::chrono::milliseconds patience{60'000};
  int32_t most_attempts = 5;
};

enum class ReplicaState { kStarting, kLoading, kReady, kHanging, kSuspect, kDead, kDraining };
const char* name_of(ReplicaState state);

struct ReplicaView {
  ReplicaId id = 0;
  ReplicaState state = ReplicaState::kStarting;
  EngineStatus status;  // as last told
  size_t in_flight = 0;
};

class Router {
 public:
  explicit Router(RouterOptions options = {}) : options_(options) {}

  void add(ReplicaId replica, int32_t slots, Instant now);
  // Gets nothing new; what it works on it may end. Then it is idle() and can be removed.
  void drain(ReplicaId replica);
  bool idle(ReplicaId replica) const;
  Actions remove(ReplicaId replica, Instant now);
  Actions answered(ReplicaId replica, const EngineStatus& status, Instant now);
  Actions died(ReplicaId replica, Instant now);
  // Tokens of it have come.
  void stepped(ReplicaId replica, Instant now);

  Actions submit(Ticket ticket, std::span<const Token> prompt, Instant now);
  // The replica did not take it.
  Actions refused(Attempt attempt, const Admission& admission, Instant now);
  // The replica took it and could not go on.
  Actions failed(Attempt attempt, const std::string& why, Instant now);
  // Nothing more comes of it: its end, or its client's.
  Actions ended(Ticket ticket);
  Actions tick(Instant now);

  // Whose event this is; empty for what nobody waits for any more.
  std::optional<Ticket> ticket_of(Attempt attempt) const;
  bool ready() const;  // some replica answers
  bool was_ready() const { return was_ready_; }
  bool draining() const { return closed_; }
  void close() { closed_ = true; }  // nothing new; what was accepted goes on
  size_t waiting() const;           // accepted, and without a replica
  uint64_t moves() const { return moves_; }
  std::vector<ReplicaView> replicas() const;

 private:
  struct Replica {
    explicit Replica(int32_t slot_count, Instant now) : slots(slot_count), last_answer(now), pace(now) {}
    ReplicaState state = ReplicaState::kStarting;
    int32_t slots;
    bool full = false;  // refused, and nothing has ended since
    bool draining = false;
    EngineStatus status;
    Instant last_answer;
    Pace pace;
    bool hangs = false;      // at the last tick
    uint64_t last_sent = 0;  // a counter: the replica that waited longest breaks ties
    std::set<Attempt> in_flight;
    PrefixIndex prefixes{1024};
  };
  struct Flight {
    std::vector<uint64_t> blocks;
    std::optional<ReplicaId> replica;
    Attempt attempt = 0;
    int32_t losses = 0;  // replicas that died, fell silent or failed under it
    Instant waits_since{};
    std::set<ReplicaId> refusals;  // since it was last with a replica
  };

  static ReplicaState shown_state(const Replica& replica);
  bool takes(const Replica& replica) const;
  std::optional<ReplicaId> choose(const Flight& flight) const;
  void send(Ticket ticket, Flight& flight, ReplicaId replica, Actions& out);
  bool place(Ticket ticket, Flight& flight, Actions& out);
  void detach(Flight& flight);
  void lose(Ticket ticket, bool cancel, const std::string& why, Instant now, Actions& out);
  void lose_all(ReplicaId replica, bool cancel, const std::string& why, Instant now, Actions& out);
  void place_waiting(Instant now, Actions& out);
  ApiError not_ready() const;
  void fail(Ticket ticket, ApiError error, Actions& out);

  RouterOptions options_;
  std::map<ReplicaId, Replica> replicas_;
  std::map<Ticket, Flight> flights_;  // in the order of acceptance
  std::unordered_map<Attempt, Ticket> attempts_;
  Attempt next_attempt_ = 1;
  uint64_t sent_ = 0;
  uint64_t moves_ = 0;
  bool closed_ = false;
  bool was_ready_ = false;
};

}  // namespace serving::gateway
