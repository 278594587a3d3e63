// How many of its workers' lines a driver is shown: a bucket for each worker, so that one that prints without
// end neither floods the terminal nor hides the others. The files keep every line. Decides only. One owner
// (the loop thread).
//
//   auto admitted = relay.admit(worker, lines.size(), now);   // show the first `lines`, say that `dropped` were left out
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include <rayo/id.h>

#include "runtime/base/clock.h"

namespace rayo::raylet {

struct LogRate {
  double lines_per_second = 200;  // of one worker: more than a person reads, less than a terminal chokes on
  double burst = 1000;
};

// Tokens that come back with time.
class TokenBucket {
 public:
  TokenBucket(LogRate rate, base::TimePoint now) : rate_(rate), tokens_(rate.burst), at_(now) {}
  // How many of `wanted` may pass.
  int64_t take(int64_t wanted, base::TimePoint now);

 private:
  LogRate rate_;
  double tokens_;
  base::TimePoint at_;
};

class LogRelay {
 public:
  explicit LogRelay(LogRate rate) : rate_(rate) {}

  struct Admitted {
    int64_t lines = 0;
    int64_t dropped = 0;  // what was left out, those of before included, where it is time to tell
  };
  Admitted admit(ProcessId worker, int64_t lines, base::TimePoint now);
  // Who left lines out and has not told for kTellEach, with their number: they count as told now.
  std::vector<std::pair<ProcessId, int64_t>> due(base::TimePoint now);
  // When due() has something; kForever where nothing was left out.
  base::TimePoint next_due() const;
  void forget(ProcessId worker) { workers_.erase(worker); }

  // Left-out lines are told so often and not with every piece that is dropped: the telling must not flood either.
  static constexpr base::Duration kTellEach = std::chrono::seconds(1);

 private:
  struct Worker {
    TokenBucket bucket;
    int64_t untold = 0;
    base::TimePoint tell_at = base::kForever;
  };

  LogRate rate_;
  std::unordered_map<ProcessId, Worker> workers_;
};

}  // namespace rayo::raylet
