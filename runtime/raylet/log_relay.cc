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
  auto bucket = buckets_.try_emplace(worker, rate_, now).first;
  int64_t passed = bucket->second.take(lines, now);
  return {passed, lines - passed};
}

}  // namespace rayo::raylet
