#include "runtime/base/clock.h"

#include <ctime>

namespace rayo::base {
namespace {

class SystemClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint(read(CLOCK_BOOTTIME)); }
  WallTime wall() const override { return WallTime(read(CLOCK_REALTIME)); }

 private:
  static Duration read(clockid_t id) {
    timespec ts{};
    clock_gettime(id, &ts);
    return std::chrono::seconds(ts.tv_sec) + Duration(ts.tv_nsec);
  }
};

}  // namespace

const Clock& system_clock() {
  static const SystemClock clock;
  return clock;
}

}  // namespace rayo::base
