// For how long something is tried again that does not go: until `limit` after it did not for the first time. Decides only; one
// owner.
//
//   if (!asked.ok() && patience.again(object, now)) later([=] { ask(object); });
//   else patience.end(object), done(asked);
#pragma once

#include <unordered_map>

#include "runtime/base/clock.h"

namespace rayo::raylet {

template <class Key>
class Patience {
 public:
  explicit Patience(base::Duration limit) : limit_(limit) {}

  // It did not go. False: it is given up; who begins anew later has patience again.
  bool again(const Key& key, base::TimePoint now) {
    auto [at, first] = since_.try_emplace(key, now);
    if (now - at->second < limit_) return true;
    since_.erase(at);
    return false;
  }
  void end(const Key& key) { since_.erase(key); }  // it went, or nobody wants it any more
  bool empty() const { return since_.empty(); }

 private:
  base::Duration limit_;
  std::unordered_map<Key, base::TimePoint> since_;
};

}  // namespace rayo::raylet
