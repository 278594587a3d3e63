#include "runtime/raylet/actor_cache.h"

#include <utility>

#include "runtime/rpc/proto_ids.h"

namespace rayo::raylet {
namespace {

std::pair<uint32_t, int> rank(const proto::ActorInfo& info) {
  return {info.incarnation(), static_cast<int>(info.state())};
}

}  // namespace

ActorCache::Watch ActorCache::watch(ActorId actor, ProcessId process) {
  Entry& entry = actors_[actor];
  bool first = entry.watchers.empty();
  entry.watchers.insert(process);
  return {entry.known ? &entry.info : nullptr, first};
}

bool ActorCache::unwatch(ActorId actor, ProcessId process) {
  auto found = actors_.find(actor);
  if (found == actors_.end() || found->second.watchers.erase(process) == 0) return false;
  if (!found->second.watchers.empty()) return false;
  actors_.erase(found);
  return true;
}

std::vector<ProcessId> ActorCache::update(const proto::ActorInfo& info, Source source) {
  auto found = actors_.find(rpc::from_proto<ActorId>(info.actor()));
  if (found == actors_.end()) return {};
  Entry& entry = found->second;
  if (entry.known) {
    if (source == Source::kHere && rank(info) <= rank(entry.info)) return {};
    if (entry.info.SerializeAsString() == info.SerializeAsString()) return {};
  }
  entry.info = info;
  entry.known = true;
  return {entry.watchers.begin(), entry.watchers.end()};
}

const proto::ActorInfo* ActorCache::find(ActorId actor) const {
  auto found = actors_.find(actor);
  return found == actors_.end() || !found->second.known ? nullptr : &found->second.info;
}

std::vector<ProcessId> ActorCache::watchers(ActorId actor) const {
  auto found = actors_.find(actor);
  if (found == actors_.end()) return {};
  return {found->second.watchers.begin(), found->second.watchers.end()};
}

std::vector<ActorId> ActorCache::watched() const {
  std::vector<ActorId> actors;
  for (const auto& [actor, entry] : actors_) actors.push_back(actor);
  return actors;
}

bool ActorCache::hold(ActorId actor, ProcessId process) {
  auto& holders = holders_[actor];
  bool first = holders.empty();
  holders.insert(process);
  return first;
}

bool ActorCache::drop(ActorId actor, ProcessId process) {
  auto found = holders_.find(actor);
  if (found == holders_.end() || found->second.erase(process) == 0 || !found->second.empty()) return false;
  holders_.erase(found);
  return true;
}

std::vector<ActorId> ActorCache::held() const {
  std::vector<ActorId> actors;
  for (const auto& [actor, holders] : holders_) actors.push_back(actor);
  return actors;
}

ActorCache::Left ActorCache::process_gone(ProcessId process) {
  Left left;
  for (ActorId actor : watched())
    if (unwatch(actor, process)) left.unwatched.push_back(actor);
  for (ActorId actor : held())
    if (drop(actor, process)) left.dropped.push_back(actor);
  return left;
}

}  // namespace rayo::raylet
