// The jobs that this node has to do with: those of its own drivers, and those of other nodes' drivers whose
// actors and tasks run here (the head tells of them, or is asked once). Loop thread only.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <rayo/id.h>

#include "runtime/base/loop/event.h"
#include "runtime/base/status.h"
#include "runtime/proto/head.pb.h"

namespace rayo::raylet {

struct Job {
  JobId id;
  PackageId package;  // nil until the driver has offered it
  ProcessId driver;
  NodeId node;  // of the driver; nil: a detached actor's own, which has none
  std::string name_space;
  std::string program;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  std::string working_directory;
  JobId parent;  // of another program than the driver's: the job that opened it, with which it ends; nil: none
};

class Jobs {
 public:
  // How the head is asked for a job that is not known here (in a fiber).
  using Finder = std::function<base::StatusOr<proto::JobInfo>(JobId, base::TimePoint deadline)>;
  explicit Jobs(Finder finder) : finder_(std::move(finder)) {}

  Job& add(Job job);
  Job* find(JobId id);
  // With its package known. Waits for it at most until the deadline; NotFound: no such job, or it has ended.
  base::StatusOr<const Job*> await_ready(JobId id, base::TimePoint deadline);
  void set_package(JobId id, PackageId package);
  // News from the head.
  void learn(const proto::JobInfo& info);
  // Forgets it and the jobs of its programs, and tells the listeners, once.
  void end(JobId id, const std::string& why);
  void on_end(std::function<void(JobId, const std::string& why)> listener) {
    listeners_.push_back(std::move(listener));
  }
  bool ended(JobId id) const { return ended_.count(id) != 0; }

  // The jobs of the programs that this one opened.
  std::vector<JobId> programs_of(JobId parent) const;
  // Jobs whose driver is on this node, and those of programs, which any node may have opened; parents come before their
  // programs.
  std::vector<const Job*> own_jobs(NodeId node) const;
  // Of all jobs that are known here and have not ended.
  std::set<PackageId> packages() const;
  // Packages of jobs whose driver is on this node, or on none, for other nodes.
  std::vector<PackageId> own_packages(NodeId node) const;

 private:
  Finder finder_;
  std::map<JobId, Job> jobs_;
  std::set<JobId> ended_;          // the last ones that ended, so that late news start nothing
  std::deque<JobId> ended_order_;  // oldest first
  base::WaitList news_;
  std::vector<std::function<void(JobId, const std::string&)>> listeners_;
};

proto::JobEvent job_event(const Job& job);

}  // namespace rayo::raylet
