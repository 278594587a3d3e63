// What is to happen at a time: call time-outs, warm leases, verdicts about broken links. Under the baton.
#pragma once

#include <functional>
#include <map>
#include <unordered_map>
#include <utility>

#include "runtime/base/clock.h"

namespace rayo::worker {

class Alarms {
 public:
  using Number = uint64_t;

  Number at(base::TimePoint when, std::function<void()> ring) {
    const Number number = ++last_;
    due_.emplace(std::pair(when, number), std::move(ring));
    when_.emplace(number, when);
    return number;
  }
  void cancel(Number number) {
    auto found = when_.find(number);
    if (found == when_.end()) return;
    due_.erase({found->second, number});
    when_.erase(found);
  }
  base::TimePoint next() const { return due_.empty() ? base::kForever : due_.begin()->first.first; }

  void ring(base::TimePoint now) {
    while (!due_.empty() && due_.begin()->first.first <= now) {
      auto first = due_.extract(due_.begin());
      when_.erase(first.key().second);
      first.mapped()();
    }
  }

 private:
  Number last_ = 0;
  std::map<std::pair<base::TimePoint, Number>, std::function<void()>> due_;
  std::unordered_map<Number, base::TimePoint> when_;
};

}  // namespace rayo::worker
