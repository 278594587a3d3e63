// The jobs: a driver each, from its registration to its end. Decides; no I/O. Every act can be repeated.
#pragma once

#include <deque>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include <rayo/id.h>

#include "runtime/head/control_store.h"
#include "runtime/head/timeouts.h"
#include "runtime/proto/head.pb.h"

namespace rayo::head {

class JobTable {
 public:
  // The driver's raylet says it began or ended (of another program's job: any raylet, and its parent's driver is its own).
  // True: something changed, `persist` has the row.
  bool apply(NodeId node, const proto::JobEvent& event, int64_t now_us, Batch& persist);
  // Its row could not be written.
  void abandon(JobId id) { jobs_.erase(id); }
  // Ends the job; false where it is not known or ended.
  bool end(JobId id, const proto::DeathRecord& why, Batch& persist);
  // The running jobs whose driver is on this node.
  std::vector<JobId> on_node(NodeId node) const;
  // The running jobs of other programs that this one opened.
  std::vector<JobId> programs_of(JobId parent) const;

  // Of the running jobs.
  std::set<PackageId> packages() const;

  const proto::JobInfo* find(JobId id) const;
  // False for one that is not known: its driver may have been away while the head was.
  bool ended(JobId id) const;
  const std::unordered_map<JobId, proto::JobInfo>& all() const { return jobs_; }
  void restore(proto::JobInfo row);

 private:
  std::unordered_map<JobId, proto::JobInfo> jobs_;
  std::deque<JobId> ended_;
};

}  // namespace rayo::head
