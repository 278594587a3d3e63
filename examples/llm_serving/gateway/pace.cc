#include "examples/llm_serving/gateway/pace.h"

#include <algorithm>

namespace serving::gateway {
namespace {

std::chrono::steady_clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

void Pace::answered(const EngineStatus& status, Instant now) {
  went_on_ = std::max(went_on_, now - duration_of(status.step_under_way_s));
  limit_ = std::max(kShortest, duration_of(kTimesUsual * status.usual_step_s));
}

void Pace::stepped(Instant now) { went_on_ = std::max(went_on_, now); }

}  // namespace serving::gateway
