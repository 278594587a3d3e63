// What this node knows of actors that its processes call, and who of them wants to hear more; and this node's
// count of handles, so that the head hears of the first and the last only. Decides only; the shell sends. One
// owner (the loop thread).
//
//   auto watch = cache.watch(actor, process);
//   if (watch.ask_head) relay(WatchActor); if (watch.known) answer(*watch.known);
//   for (ProcessId p : cache.update(info, ActorCache::Source::kHead)) push(p, info);
#pragma once

#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include <rayo/id.h>

#include "runtime/proto/common.pb.h"

namespace rayo::raylet {

class ActorCache {
 public:
  enum class Source {
    kHead,  // in the order of its stream: always believed
    kHere,  // this raylet's own news of an actor that it hosts: only where it is newer than what is known
  };
  struct Watch {
    const proto::ActorInfo* known = nullptr;  // nullptr: nothing yet
    bool ask_head = false;                    // the first watcher here
  };

  Watch watch(ActorId actor, ProcessId process);
  // True: nobody here watches it any more, the head may forget us. What is known is dropped then.
  bool unwatch(ActorId actor, ProcessId process);
  // Processes that are to be told; none where it is no news.
  std::vector<ProcessId> update(const proto::ActorInfo& info, Source source);
  const proto::ActorInfo* find(ActorId actor) const;
  std::vector<ProcessId> watchers(ActorId actor) const;
  std::vector<ActorId> watched() const;

  // True: the first handle on this node / the last one went.
  bool hold(ActorId actor, ProcessId process);
  bool drop(ActorId actor, ProcessId process);
  bool holds(ActorId actor) const { return holders_.contains(actor); }
  std::vector<ActorId> held() const;

  struct Left {
    std::vector<ActorId> unwatched;  // by the last of their watchers here
    std::vector<ActorId> dropped;    // by the last of their holders here
  };
  Left process_gone(ProcessId process);

 private:
  struct Entry {
    proto::ActorInfo info;
    bool known = false;
    std::set<ProcessId> watchers;
  };
  std::unordered_map<ActorId, Entry> actors_;
  std::unordered_map<ActorId, std::set<ProcessId>> holders_;
};

}  // namespace rayo::raylet
