#include "runtime/raylet/local_queue.h"

#include <algorithm>
#include <tuple>

namespace rayo::raylet {

void LocalQueue::request(LeaseWish wish) {
  WishKey key{wish.process, wish.shape};
  if (wish.count <= 0) {
    wishes_.erase(key);
    return;
  }
  auto found = wishes_.find(key);
  if (found != wishes_.end()) {
    found->second.count = wish.count;
    found->second.depth = wish.depth;
    return;
  }
  wishes_.emplace(key, std::move(wish));
}

void LocalQueue::granted(const WishKey& key, int leases) {
  auto found = wishes_.find(key);
  if (found == wishes_.end()) return;
  found->second.count -= leases;
  if (found->second.count <= 0) wishes_.erase(found);
}

void LocalQueue::put_back(LeaseWish wish) {
  const WishKey key{wish.process, wish.shape};
  auto [at, fresh] = wishes_.try_emplace(key, wish);
  if (fresh) return;
  at->second.count += wish.count;
  at->second.not_here_until = wish.not_here_until;
}

const LeaseWish* LocalQueue::find(const WishKey& key) const {
  auto found = wishes_.find(key);
  return found == wishes_.end() ? nullptr : &found->second;
}

std::vector<WishKey> LocalQueue::order() const {
  std::vector<const LeaseWish*> sorted;
  for (const auto& [key, wish] : wishes_) sorted.push_back(&wish);
  std::sort(sorted.begin(), sorted.end(), [](const LeaseWish* left, const LeaseWish* right) {
    return std::tuple(-left->depth, left->since, left->process, left->shape) <
           std::tuple(-right->depth, right->since, right->process, right->shape);
  });
  std::vector<WishKey> keys;
  for (const LeaseWish* wish : sorted) keys.push_back({wish->process, wish->shape});
  return keys;
}

bool allowed_here(const scheduler::Demand& demand, NodeId node, const scheduler::Labels& labels) {
  return (!demand.node || demand.node == node) && scheduler::labels_hold(demand, labels);
}

}  // namespace rayo::raylet
