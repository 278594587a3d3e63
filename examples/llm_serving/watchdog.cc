#include "examples/llm_serving/watchdog.h"

namespace serving {

std::optional<std::string> watchdog_verdict(const WatchdogLimits& limits, std::chrono::steady_clock::duration step_time,
                                            std::chrono::steady_clock::duration since_asked) {
  if (step_time > limits.step)
    return "a decoding step has not ended for " + std::to_string(limits.step.count()) +
           " s (--step-timeout): the engine ends itself";
  if (limits.orphan.count() > 0 && since_asked > limits.orphan)
    return "no endpoint has asked for " + std::to_string(limits.orphan.count()) + " s: the engine ends itself";
  return std::nullopt;
}

}  // namespace serving
