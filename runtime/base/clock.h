// Time as an argument: whatever decides takes a Clock, so that a test moves it by hand (tests/testkit/manual_clock.h).
#pragma once

#include <chrono>

namespace rayo::base {

using Duration = std::chrono::nanoseconds;
// A point of the monotonic clock that also runs while the machine sleeps (CLOCK_BOOTTIME); comparable on one machine
// only.
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;
// Nanoseconds since the epoch, for people and records; never compared for a decision.
using WallTime = std::chrono::sys_time<Duration>;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
  virtual WallTime wall() const = 0;
};

// The machine's own; usable from any thread.
const Clock& system_clock();

constexpr TimePoint kForever = TimePoint::max();

// now + span without overflow; a negative span is none at all.
inline TimePoint deadline_after(TimePoint now, Duration span) {
  if (span <= Duration::zero()) return now;
  return kForever - now < span ? kForever : now + span;
}

// Of a count that came from outside: negative is none, and more than a Duration holds is its most, which is for ever.
constexpr Duration span_of_ms(int64_t milliseconds) {
  constexpr int64_t kMost = std::chrono::floor<std::chrono::milliseconds>(Duration::max()).count();
  if (milliseconds <= 0) return Duration::zero();
  return milliseconds > kMost ? Duration::max() : Duration(std::chrono::milliseconds(milliseconds));
}

inline double seconds(Duration span) { return std::chrono::duration<double>(span).count(); }

}  // namespace rayo::base
