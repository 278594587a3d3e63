// What languages need besides get and wait: to be told that an object is ready, to wait for something of their own, and to
// have waits ended by a signal.
#include <memory>

#include "runtime/worker/cluster_backend.h"

namespace rayo::worker {

const std::atomic<bool>* ClusterBackend::ends_waits() const {
  return ends_waits_ && std::this_thread::get_id() == ends_waits_of_ ? ends_waits_ : nullptr;
}

void ClusterBackend::end_waits_while(const std::atomic<bool>* flag) {
  const Hold hold = enter();
  ends_waits_ = flag;
  ends_waits_of_ = std::this_thread::get_id();
}

void ClusterBackend::when_ready(const internal::ObjectHandle& object, internal::ReadyNotice& notice) {
  struct Hook : ReadyHook {
    internal::ReadyNotice* notice = nullptr;
  };
  Hold hold = enter();
  ObjectSlot& slot = slot_of(object);
  if (!slot.own) traffic_.references().resolve(slot);
  if (slot.ready()) return notice.ready(notice);
  auto* hook = new Hook;
  hook->notice = &notice;
  hook->ready = [](ReadyHook& base) {
    const std::unique_ptr<Hook> self(static_cast<Hook*>(&base));
    self->notice->ready(*self->notice);
  };
  traffic_.table().await(slot, *hook);
  traffic_.finish_turn();
}

bool ClusterBackend::wait_for(bool (*ready)(void* context), void* context, std::chrono::nanoseconds timeout) {
  Hold hold = enter();
  const base::TimePoint deadline =
      timeout.count() < 0 ? base::kForever : base::deadline_after(traffic_.clock().now(), timeout);
  return wait_until([&] { return ready(context); }, deadline, kNoPeer);
}

}  // namespace rayo::worker
