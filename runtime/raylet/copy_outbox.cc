#include "runtime/raylet/copy_outbox.h"

#include <utility>
#include <vector>

#include "runtime/rpc/proto_ids.h"

namespace rayo::raylet {

namespace {
constexpr size_t kMostInOne = 10'000;  // ids, 300 KB
}

void CopyOutbox::gone(uint64_t holder, const ObjectId& object) {
  Holder& state = holders_[holder];
  state.to_tell.insert(object);
  advance(holder, state);
}

void CopyOutbox::acknowledged(uint64_t holder) {
  auto found = holders_.find(holder);
  if (found == holders_.end()) return;
  found->second.told.clear();
  if (found->second.to_tell.empty())
    holders_.erase(found);
  else
    advance(holder, found->second);
}

void CopyOutbox::failed(uint64_t holder) {
  auto found = holders_.find(holder);
  if (found == holders_.end()) return;
  found->second.to_tell.merge(found->second.told);
  found->second.told.clear();
  found->second.waits_for_retry = true;
}

void CopyOutbox::retry() {
  std::vector<uint64_t> due;
  for (const auto& [holder, state] : holders_)
    if (state.waits_for_retry) due.push_back(holder);
  for (uint64_t holder : due) {
    auto found = holders_.find(holder);  // sending to one may have ended another
    if (found == holders_.end()) continue;
    found->second.waits_for_retry = false;
    advance(holder, found->second);
  }
}

void CopyOutbox::advance(uint64_t holder, Holder& state) {
  if (!state.told.empty() || state.waits_for_retry) return;
  proto::DropCopiesRequest request;
  rpc::to_proto(self_, request.mutable_node());
  for (size_t room = kMostInOne; room > 0 && !state.to_tell.empty(); --room) {
    *request.add_objects() = rpc::to_proto(*state.to_tell.begin());
    state.told.insert(state.to_tell.extract(state.to_tell.begin()));
  }
  send_(holder, request);
}

}  // namespace rayo::raylet
