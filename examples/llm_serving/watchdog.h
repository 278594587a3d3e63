// When an engine must end its own process: nobody else sees that it computes without end, or that nobody needs it any more.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace serving {

struct WatchdogLimits {
  std::chrono::seconds step{30};   // of one decoding step
  std::chrono::seconds orphan{0};  // without a question of an endpoint; 0: any time
};

// Why it must end, as a sentence for the death record; nothing: it lives on.
std::optional<std::string> watchdog_verdict(const WatchdogLimits& limits, std::chrono::steady_clock::duration step_time,
                                            std::chrono::steady_clock::duration since_asked);

}  // namespace serving
