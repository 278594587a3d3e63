#include "runtime/raylet/jobs.h"

#include <chrono>

#include "runtime/base/text.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::raylet {
namespace {

using std::chrono_literals::operator""ms;

// A driver's package follows its hello within one round trip; the head may hear of the job a moment after its
// first actor.
constexpr base::Duration kAskAgain = 20ms;
constexpr size_t kEndedKept = 4096;  // ids of ended jobs

Job from_info(const proto::JobInfo& info) {
  Job job;
  job.id = rpc::from_proto<JobId>(info.job());
  job.package = rpc::from_proto<PackageId>(info.package());
  job.driver = rpc::from_proto<ProcessId>(info.process());
  job.node = rpc::from_proto<NodeId>(info.node());
  job.name_space = info.namespace_();
  job.program = info.program();
  job.arguments.assign(info.arguments().begin(), info.arguments().end());
  job.environment.assign(info.environment().begin(), info.environment().end());
  job.working_directory = info.working_directory();
  job.parent = rpc::from_proto<JobId>(info.parent());
  return job;
}

}  // namespace

Job& Jobs::add(Job job) {
  JobId id = job.id;
  Job& slot = jobs_[id] = std::move(job);
  news_.notify_all();
  return slot;
}

Job* Jobs::find(JobId id) {
  auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : &found->second;
}

base::StatusOr<const Job*> Jobs::await_ready(JobId id, base::TimePoint deadline) {
  while (!ended(id)) {
    Job* job = find(id);
    if (job && job->package) return job;
    if (!job) {
      auto info = finder_(id, deadline);
      if (info.ok()) {
        learn(*info);
        continue;
      }
      if (info.status().code() == absl::StatusCode::kNotFound) return info.status();
    }
    if (base::current_loop()->now() >= deadline || base::fiber_cancelled())
      return base::failed(absl::StatusCode::kDeadlineExceeded,
                          base::cat("the program of job ", id.hex(), " is not known yet"));
    news_.wait(std::min(deadline, base::current_loop()->deadline(kAskAgain)));
    job = find(id);  // it may have ended meanwhile
    if (job && !job->package) {
      // A driver on another node may have offered it meanwhile, and only the head knows.
      auto info = finder_(id, deadline);
      if (info.ok()) learn(*info);
    }
  }
  return base::failed(absl::StatusCode::kNotFound, base::cat("job ", id.hex(), " has ended"));
}

void Jobs::set_package(JobId id, PackageId package) {
  if (Job* job = find(id)) job->package = package;
  news_.notify_all();
}

void Jobs::learn(const proto::JobInfo& info) {
  Job job = from_info(info);
  if (info.state() == "ended") return end(job.id, "its driver has ended");
  if (ended(job.id)) return;
  Job* known = find(job.id);
  if (known && known->package) return;
  add(std::move(job));
}

void Jobs::end(JobId id, const std::string& why) {
  bool known = jobs_.erase(id) != 0;
  if (!ended_.insert(id).second) return;
  ended_order_.push_back(id);
  if (ended_order_.size() > kEndedKept) {
    ended_.erase(ended_order_.front());
    ended_order_.pop_front();
  }
  if (known) {
    news_.notify_all();
    for (const auto& listener : listeners_) listener(id, why);
  }
  for (JobId program : programs_of(id)) end(program, why);
}

std::vector<JobId> Jobs::programs_of(JobId parent) const {
  std::vector<JobId> programs;
  for (const auto& [id, job] : jobs_)
    if (job.parent == parent) programs.push_back(id);
  return programs;
}

std::vector<const Job*> Jobs::own_jobs(NodeId node) const {
  std::vector<const Job*> own;
  for (bool programs : {false, true})
    for (const auto& [id, job] : jobs_)
      if ((job.node == node || programs) && static_cast<bool>(job.parent) == programs) own.push_back(&job);
  return own;
}

std::set<PackageId> Jobs::packages() const {
  std::set<PackageId> packages;
  for (const auto& [id, job] : jobs_) packages.insert(job.package);
  return packages;
}

std::vector<PackageId> Jobs::own_packages(NodeId node) const {
  std::vector<PackageId> packages;
  for (const auto& [id, job] : jobs_)
    if ((job.node == node || !job.node) && job.package) packages.push_back(job.package);
  return packages;
}

proto::JobEvent job_event(const Job& job) {
  proto::JobEvent event;
  rpc::to_proto(job.id, event.mutable_job());
  rpc::to_proto(job.driver, event.mutable_process());
  rpc::to_proto(job.package, event.mutable_package());
  event.set_program(job.program);
  event.set_namespace_(job.name_space);
  event.mutable_arguments()->Assign(job.arguments.begin(), job.arguments.end());
  event.mutable_environment()->Assign(job.environment.begin(), job.environment.end());
  event.set_working_directory(job.working_directory);
  if (job.parent) rpc::to_proto(job.parent, event.mutable_parent());
  return event;
}

}  // namespace rayo::raylet
