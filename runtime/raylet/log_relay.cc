#include "runtime/raylet/log_relay.h"

#include <algorithm>
#include <cmath>

namespace rayo::raylet {

int64_t TokenBucket::take(int64_t wanted, base::TimePoint now) {
  if (now > at_) tokens_ = std::min(rate_.burst, tokens_ + base::seconds(now - at_) * rate_.lines_per_second);
  at_ = std::max(at_, now);
  auto passed = std::min<int64_t>(wanted, static_cast<int64_t>(std::floor(tokens_)));
  tokens_ -= static_cast<double>(passed);
  return passed;
}

LogRelay::Admitted LogRelay::admit(ProcessId worker, int64_t lines, base::TimePoint now) {
  Worker& known = workers_.try_emplace(worker, Worker{TokenBucket(rate_, now)}).first->second;
  const int64_t passed = known.bucket.take(lines, now);
  if (passed < lines && known.untold == 0) known.tell_at = now + kTellEach;
  known.untold += lines - passed;
  if (now < known.tell_at) return {passed, 0};
  known.tell_at = base::kForever;
  return {passed, std::exchange(known.untold, 0)};
}

std::vector<std::pair<ProcessId, int64_t>> LogRelay::due(base::TimePoint now) {
  std::vector<std::pair<ProcessId, int64_t>> out;
  for (auto& [worker, known] : workers_) {
    if (now < known.tell_at) continue;
    out.emplace_back(worker, std::exchange(known.untold, 0));
    known.tell_at = base::kForever;
  }
  return out;
}

base::TimePoint LogRelay::next_due() const {
  base::TimePoint next = base::kForever;
  for (const auto& [worker, known] : workers_) next = std::min(next, known.tell_at);
  return next;
}

}  // namespace rayo::raylet
