#include "runtime/worker/idle_links.h"

#include <algorithm>
#include <utility>

namespace rayo::worker {

namespace {
// Looks in a span: last_used is as exact as that, and a link is closed at most this part of the span late.
constexpr int kLooks = 3;
constexpr base::Duration kLookEach = std::chrono::milliseconds(1);  // at most so often
}  // namespace

IdleLinks::Idle IdleLinks::look(base::TimePoint now, const std::function<base::TimePoint(PeerId)>& last_used,
                                const std::function<bool(PeerId)>& quiet) {
  Idle idle;
  for (auto& [peer, link] : links_) {
    // Asked of every link: it is by being asked that the engine notes the time.
    if (now - last_used(peer) < after_ || link.offered || !quiet(peer)) continue;
    if (link.way == Way::kTcp) {
      idle.close.push_back(peer);
      continue;
    }
    link.offered = true;
    idle.offer.push_back(peer);
  }
  return idle;
}

bool IdleLinks::kept(PeerId peer) {
  auto found = links_.find(peer);
  return found != links_.end() && std::exchange(found->second.offered, false);
}

bool IdleLinks::offered(PeerId peer) const {
  auto found = links_.find(peer);
  return found != links_.end() && found->second.offered;
}

base::TimePoint IdleLinks::next_look(base::TimePoint now) const {
  for (const auto& [peer, link] : links_)
    if (!link.offered) return base::deadline_after(now, std::max(after_ / kLooks, kLookEach));
  return base::kForever;
}

}  // namespace rayo::worker
