// Whether an engine goes on, as seen from the gateway: by its tokens, and by what its status tells of the step under way.
//
//   pace.answered(status, now);   // twice a second
//   pace.stepped(now);            // tokens of it have come
//   if (pace.hangs(now)) ...      // another engine is the better choice, where there is one
//
// A status may be answered while the step never ends (a device that hangs), and tokens may be rare while it works well (long
// prompts): the later of what both prove counts. It hangs once nothing is proven for a few times its usual step. That is a
// preference alone: a wrong verdict costs a prefix that is computed again. Requests are moved, and processes ended, by
// firmer signs (router.h, watchdog.h).
#pragma once

#include <chrono>

#include "examples/llm_serving/protocol.h"

namespace serving::gateway {

using Instant = std::chrono::steady_clock::time_point;

class Pace {
 public:
  explicit Pace(Instant now) : went_on_(now) {}

  void answered(const EngineStatus& status, Instant now);
  void stepped(Instant now);
  bool hangs(Instant now) const { return now - went_on_ > limit_; }

 private:
  // Answers come each 500 ms, and a loaded machine's are late.
  static constexpr std::chrono::steady_clock::duration kShortest = std::chrono::milliseconds(1000);
  static constexpr double kTimesUsual = 4;

  Instant went_on_;  // the latest moment at which it is known to have been at work, or free for it
  std::chrono::steady_clock::duration limit_ = kShortest;
};

}  // namespace serving::gateway
