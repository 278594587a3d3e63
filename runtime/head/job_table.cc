#include "runtime/head/job_table.h"

#include "runtime/rpc/proto_ids.h"

namespace rayo::head {

namespace {
constexpr const char* kRunning = "running";
constexpr const char* kEnded = "ended";
}  // namespace

bool JobTable::apply(NodeId node, const proto::JobEvent& event, int64_t now_us, Batch& persist) {
  auto id = rpc::from_proto<JobId>(event.job());
  if (event.ended()) return end(id, event.death(), persist);
  const auto parent_id = rpc::from_proto<JobId>(event.parent());
  if (parent_id && (!find(parent_id) || ended(parent_id))) return false;
  auto [at, fresh] = jobs_.try_emplace(id);
  auto& job = at->second;
  if (!fresh) {  // a repeat, or the package that is known only now
    if (job.state() == kEnded || !event.has_package() || rpc::from_proto<PackageId>(job.package())) return false;
    *job.mutable_package() = event.package();
    persist.put("jobs", id.hex(), job.SerializeAsString());
    return true;
  }
  *job.mutable_job() = event.job();
  job.set_state(kRunning);
  rpc::to_proto(node, job.mutable_node());
  *job.mutable_process() = event.process();
  job.set_pid(event.pid());
  job.set_program(event.program());
  job.set_namespace_(event.namespace_());
  job.set_started_at_unix_us(now_us);
  *job.mutable_package() = event.package();
  *job.mutable_arguments() = event.arguments();
  job.set_working_directory(event.working_directory());
  *job.mutable_environment() = event.environment();
  if (parent_id) {
    const auto& parent = jobs_.at(parent_id);
    *job.mutable_parent() = event.parent();
    *job.mutable_node() = parent.node();
    *job.mutable_process() = parent.process();
    job.set_pid(parent.pid());
  }
  persist.put("jobs", id.hex(), job.SerializeAsString());
  return true;
}

bool JobTable::end(JobId id, const proto::DeathRecord& why, Batch& persist) {
  auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second.state() == kEnded) return false;
  auto& job = found->second;
  job.set_state(kEnded);
  job.set_ended_at_unix_us(why.at_unix_us());
  *job.mutable_death() = why;
  job.clear_environment();
  persist.put("jobs", id.hex(), job.SerializeAsString());
  ended_.push_back(id);
  if (ended_.size() > kEndedJobs) {
    persist.erase("jobs", ended_.front().hex());
    jobs_.erase(ended_.front());
    ended_.pop_front();
  }
  return true;
}

std::vector<JobId> JobTable::on_node(NodeId node) const {
  std::vector<JobId> out;
  for (const auto& [id, job] : jobs_) {
    if (job.state() == kRunning && rpc::from_proto<NodeId>(job.node()) == node) out.push_back(id);
  }
  return out;
}

std::vector<JobId> JobTable::programs_of(JobId parent) const {
  std::vector<JobId> out;
  for (const auto& [id, job] : jobs_) {
    if (job.state() == kRunning && rpc::from_proto<JobId>(job.parent()) == parent) out.push_back(id);
  }
  return out;
}

std::set<PackageId> JobTable::packages() const {
  std::set<PackageId> out;
  for (const auto& [id, job] : jobs_) {
    if (job.state() == kRunning) out.insert(rpc::from_proto<PackageId>(job.package()));
  }
  return out;
}

const proto::JobInfo* JobTable::find(JobId id) const {
  auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : &found->second;
}

bool JobTable::ended(JobId id) const {
  const auto* job = find(id);
  return job && job->state() == kEnded;
}

void JobTable::restore(proto::JobInfo row) {
  auto id = rpc::from_proto<JobId>(row.job());
  if (row.state() == kEnded) ended_.push_back(id);
  jobs_.insert_or_assign(id, std::move(row));
}

}  // namespace rayo::head
