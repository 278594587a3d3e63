// Events a second over the last 10 seconds.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

namespace serving {

class Rate {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void add(Time now, uint64_t count) {
    Second& second = seconds_[index(now) % kSeconds];
    if (second.at != index(now)) second = {index(now), 0};
    second.count += count;
  }

  double per_second(Time now) const {
    uint64_t sum = 0;
    for (const Second& second : seconds_) {
      if (second.at > index(now) - kSeconds) sum += second.count;
    }
    return static_cast<double>(sum) / kSeconds;
  }

 private:
  static constexpr int64_t kSeconds = 10;
  struct Second {
    int64_t at = -kSeconds;
    uint64_t count = 0;
  };
  static int64_t index(Time now) {
    return std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  }
  std::array<Second, kSeconds> seconds_{};
};

}  // namespace serving
