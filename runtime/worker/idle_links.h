// Which ways to other processes are closed for want of use. Decides; no I/O, time is an argument. Under the baton.
//
// A connection over TCP has one side that calls: it closes it when it has nothing under way. A ring has two, so one
// offers, and until it is answered puts nothing more into the ring:
//
//   idle --offer--> offered --the other side closes (it has nothing under way either)--> closed
//                      '------ the other side keeps it, by a frame -----------------> open, as if used
//
// Why no call is lost or reordered: who offers has no call under way, and what it says after its offer waits for the
// answer. Who closes has read everything up to the offer and has no call under way. So both rings are empty of calls,
// and what is made later goes by a new way. Where both offer at once, either may close.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/worker/engine.h"

namespace rayo::worker {

// A ring holds 132 KiB of memory and a bit of each side's doorbell.
inline constexpr base::Duration kIdleLink = std::chrono::seconds(30);

class IdleLinks {
 public:
  enum class Way { kRing, kTcp };

  explicit IdleLinks(base::Duration after) : after_(after) {}

  void opened(PeerId peer, Way way) { links_[peer] = {way, false}; }
  void closed(PeerId peer) { links_.erase(peer); }

  struct Idle {
    std::vector<PeerId> offer;
    std::vector<PeerId> close;
  };
  // What is idle now: not used for the span, and nothing under way (`quiet`). What is to be offered counts as offered.
  Idle look(base::TimePoint now, const std::function<base::TimePoint(PeerId)>& last_used,
            const std::function<bool(PeerId)>& quiet);
  // The other side keeps the ring. False: it was not offered.
  bool kept(PeerId peer);
  bool offered(PeerId peer) const;
  // When to look next: kForever while there is nothing to look at.
  base::TimePoint next_look(base::TimePoint now) const;

 private:
  struct Link {
    Way way = Way::kRing;
    bool offered = false;
  };
  base::Duration after_;
  std::unordered_map<PeerId, Link> links_;
};

}  // namespace rayo::worker
