// A clock for what is noted at each call: the processor's own counter, which costs a third of a system clock (25 ns here), made into
// times when somebody asks for them.
//
//   const TickClock ticks(system_clock());
//   const uint64_t at = TickClock::now();
//   int64_t us = ticks.reading().unix_us(at);
//
// Where the counter does not run evenly (CPUID's "invariant TSC" is missing) now() is the system clock's. Any thread.
#pragma once

#include <cpuid.h>
#include <cstdint>
#include <x86intrin.h>

#include "runtime/base/clock.h"

namespace rayo::base {

class TickClock {
 public:
  explicit TickClock(const Clock& clock) : clock_(clock), first_ticks_(now()), first_(clock.now()) {}

  static uint64_t now() {
    static const bool even = runs_evenly();
    return even ? __rdtsc() : static_cast<uint64_t>(system_clock().now().time_since_epoch().count());
  }

  // Both clocks at one moment, from which earlier ticks are counted back.
  class Reading {
   public:
    Reading(uint64_t ticks, WallTime wall, double ns_per_tick)
        : ticks_(ticks), wall_(wall), ns_per_tick_(ns_per_tick) {}
    int64_t unix_us(uint64_t at) const {
      const auto back = Duration(static_cast<int64_t>(static_cast<double>(ticks_ - at) * ns_per_tick_));
      return std::chrono::duration_cast<std::chrono::microseconds>((wall_ - back).time_since_epoch()).count();
    }

   private:
    uint64_t ticks_;
    WallTime wall_;
    double ns_per_tick_;
  };
  Reading reading() const {
    const uint64_t ticks = now();
    const double passed = static_cast<double>((clock_.now() - first_).count());
    return {ticks, clock_.wall(), ticks == first_ticks_ ? 0 : passed / static_cast<double>(ticks - first_ticks_)};
  }

 private:
  static bool runs_evenly() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
  }

  const Clock& clock_;
  const uint64_t first_ticks_;
  const TimePoint first_;
};

}  // namespace rayo::base
