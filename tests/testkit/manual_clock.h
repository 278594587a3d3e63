// A clock that a test moves by hand: time passes only when told.
#pragma once

#include "runtime/base/clock.h"

namespace rayo::testkit {

class ManualClock final : public base::Clock {
 public:
  base::TimePoint now() const override { return base::TimePoint(std::chrono::hours(1)) + passed_; }
  base::WallTime wall() const override { return base::WallTime(std::chrono::days(20'000)) + passed_; }
  void advance(base::Duration span) { passed_ += span; }

 private:
  base::Duration passed_{};
};

}  // namespace rayo::testkit
