// What local processes want to run: for each process and shape of demand, how many leases are still wanted.
//
// Order of service: deeper in nested tasks first (what others wait for), then who waits longest. `count`
// replaces the wish as a whole, so a repeated request changes nothing. One owner (the loop thread).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <rayo/id.h>

#include "runtime/base/clock.h"
#include "scheduler/demand.h"

namespace rayo::raylet {

struct LeaseWish {
  ProcessId process;
  uint64_t shape = 0;
  JobId job;
  scheduler::Demand demand;
  int64_t schedule_timeout_ms = 0;
  int count = 0;
  int depth = 0;
  std::string what;
  base::TimePoint since{};  // when it began to wait
  base::WallTime since_wall{};
  base::TimePoint not_here_until{};  // this node could start no worker for it
};

struct WishKey {
  ProcessId process;
  uint64_t shape = 0;
  friend auto operator<=>(const WishKey&, const WishKey&) = default;
};

class LocalQueue {
 public:
  // Replaces what this process wants of this shape; count 0 withdraws it.
  void request(LeaseWish wish);
  // One of them was granted; the wish ends with its last.
  void granted(const WishKey& key, int leases = 1);
  // What granted() took out was not served after all.
  void put_back(LeaseWish wish);
  // It will not be served.
  void drop(const WishKey& key) { wishes_.erase(key); }

  const LeaseWish* find(const WishKey& key) const;
  // In the order of service.
  std::vector<WishKey> order() const;

  bool empty() const { return wishes_.empty(); }
  const std::map<WishKey, LeaseWish>& wishes() const { return wishes_; }

 private:
  std::map<WishKey, LeaseWish> wishes_;
};

// Labels and affinity: may this demand run on a node with this id and these labels?
bool allowed_here(const scheduler::Demand& demand, NodeId node, const scheduler::Labels& labels);

}  // namespace rayo::raylet
