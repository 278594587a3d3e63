#include "runtime/raylet/worker_pool.h"

#include <algorithm>

#include "runtime/base/ids.h"

namespace rayo::raylet {

void WorkerPool::open_job(JobId job, bool prestart) {
  jobs_[job].prestart = prestart;
  balance(job);
}

void WorkerPool::close_job(JobId job, const proto::Failure& why) {
  auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  for (const Wish& wish : found->second.wishes) actions_.push_back(Refuse{wish.ticket, {why}});
  jobs_.erase(found);
  for (auto& [process, worker] : workers_)
    if (worker.job == job) stop(process, worker, why.text());
}

void WorkerPool::want(Ticket ticket, JobId job, Use use, std::vector<std::string> environment) {
  Job& entry = jobs_[job];
  for (const Wish& wish : entry.wishes)
    if (wish.ticket == ticket) return;
  entry.wishes.push_back({ticket, use, std::move(environment)});
  entry.prestart = true;
  balance(job);
}

void WorkerPool::cancel(Ticket ticket) {
  for (auto& [id, job] : jobs_) std::erase_if(job.wishes, [ticket](const Wish& wish) { return wish.ticket == ticket; });
  // A process that was started for it alone serves nobody else.
  for (auto& [process, worker] : workers_)
    if (worker.bound == ticket && worker.state != State::kGiven) stop(process, worker, "no longer wanted");
}

void WorkerPool::started(ProcessId process, base::TimePoint now) {
  auto found = workers_.find(process);
  if (found == workers_.end() || found->second.state != State::kStarting) return;
  became_idle(process, found->second, now);
}

void WorkerPool::adopt(ProcessId process, JobId job, base::TimePoint now) {
  auto [found, added] = workers_.try_emplace(process);
  if (!added) return;
  found->second.job = job;
  became_idle(process, found->second, now);
}

void WorkerPool::became_idle(ProcessId process, Worker& worker, base::TimePoint now) {
  if (!jobs_.count(worker.job)) return stop(process, worker, "its job has ended");
  worker.state = State::kIdle;
  worker.use = Use::kIdle;
  worker.idle_since = now;
  idle_.push_back(process);
  balance(worker.job);
}

void WorkerPool::start_failed(ProcessId process, const StartFailure& why) {
  auto found = workers_.find(process);
  if (found == workers_.end()) return;
  JobId id = found->second.job;
  Ticket bound = found->second.bound;
  workers_.erase(found);
  auto job = jobs_.find(id);
  if (job == jobs_.end()) return;
  job->second.prestart = false;
  std::erase_if(job->second.wishes, [&](const Wish& wish) {
    if (bound != 0 && wish.ticket != bound) return false;
    actions_.push_back(Refuse{wish.ticket, why});
    return true;
  });
}

void WorkerPool::release(ProcessId process, base::TimePoint now) {
  auto found = workers_.find(process);
  if (found == workers_.end() || found->second.state != State::kGiven) return;
  Worker& worker = found->second;
  if (worker.use == Use::kActor || worker.bound != 0) return stop(process, worker, "its work has ended");
  if (count(worker.job, State::kIdle, true) >= limits_.idle_max) return stop(process, worker, "enough idle workers");
  became_idle(process, worker, now);
}

void WorkerPool::retire(ProcessId process, const std::string& reason) {
  auto found = workers_.find(process);
  if (found != workers_.end()) stop(process, found->second, reason);
}

void WorkerPool::gone(ProcessId process) {
  auto found = workers_.find(process);
  if (found == workers_.end()) return;
  JobId job = found->second.job;
  workers_.erase(found);
  std::erase(idle_, process);
  balance(job);
}

void WorkerPool::expire(base::TimePoint now) {
  std::vector<ProcessId> ended;
  std::map<JobId, int> idle;
  for (ProcessId process : idle_) ++idle[workers_.at(process).job];
  for (ProcessId process : idle_) {
    Worker& worker = workers_.at(process);
    if (base::deadline_after(worker.idle_since, limits_.idle_time) > now) break;
    if (idle[worker.job] <= limits_.spare) continue;
    --idle[worker.job];
    ended.push_back(process);
  }
  for (ProcessId process : ended) stop(process, workers_.at(process), "idle");
}

base::TimePoint WorkerPool::next_deadline() const {
  std::map<JobId, int> idle;
  for (ProcessId process : idle_) ++idle[workers_.at(process).job];
  for (ProcessId process : idle_) {
    const Worker& worker = workers_.at(process);
    if (idle[worker.job] > limits_.spare) return base::deadline_after(worker.idle_since, limits_.idle_time);
  }
  return base::kForever;
}

std::vector<WorkerPool::Action> WorkerPool::take_actions() { return std::exchange(actions_, {}); }

const char* WorkerPool::state_name(ProcessId process) const {
  auto found = workers_.find(process);
  if (found == workers_.end()) return "";
  switch (found->second.state) {
    case State::kStarting:
      return "starting";
    case State::kIdle:
      return "idle";
    case State::kGiven:
      return found->second.use == Use::kActor ? "actor" : "tasks";
    case State::kStopping:
      return "stopping";
  }
  return "";
}

// Gives idle workers to those who wait, in their order, and starts what is still missing.
void WorkerPool::balance(JobId id) {
  auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  Job& job = found->second;
  give(id, job);
  for (Wish& wish : job.wishes) {
    if (wish.environment.empty() || wish.starting) continue;
    wish.starting = true;
    start(id, wish.environment, wish.ticket, false);
  }
  if (!job.prestart) return;
  auto waiting =
      std::count_if(job.wishes.begin(), job.wishes.end(), [](const Wish& wish) { return wish.environment.empty(); });
  int missing = static_cast<int>(waiting) + limits_.spare - count(id, State::kIdle, true);
  const bool in_use = count(id, State::kGiven, false) > 0;
  for (int starting = count(id, State::kStarting, true); starting < std::min(missing, limits_.starting); ++starting)
    start(id, {}, 0, in_use && starting >= waiting);
}

void WorkerPool::give(JobId id, Job& job) {
  auto matches = [&](const Wish& wish, const Worker& worker) {
    return worker.job == id && (worker.bound ? worker.bound == wish.ticket : wish.environment.empty());
  };
  for (auto wish = job.wishes.begin(); wish != job.wishes.end();) {
    // The youngest idle one: its pages are warm, and the oldest can expire.
    auto process =
        std::find_if(idle_.rbegin(), idle_.rend(), [&](ProcessId p) { return matches(*wish, workers_.at(p)); });
    if (process == idle_.rend()) {
      ++wish;
      continue;
    }
    Worker& worker = workers_.at(*process);
    worker.state = State::kGiven;
    worker.use = wish->use;
    actions_.push_back(Give{wish->ticket, *process});
    idle_.erase(std::next(process).base());
    wish = job.wishes.erase(wish);
  }
}

void WorkerPool::start(JobId id, std::vector<std::string> environment, Ticket bound, bool ahead) {
  auto process = base::random_id<ProcessId>();
  workers_[process] = Worker{.job = id, .bound = bound};
  actions_.push_back(Start{process, id, std::move(environment), ahead});
}

void WorkerPool::stop(ProcessId process, Worker& worker, const std::string& reason) {
  if (worker.state == State::kStopping) return;
  worker.state = State::kStopping;
  std::erase(idle_, process);
  actions_.push_back(Stop{process, reason});
}

int WorkerPool::count(JobId job, State state, bool unbound) const {
  int number = 0;
  for (const auto& [process, worker] : workers_)
    number += worker.job == job && worker.state == state && (!unbound || worker.bound == 0);
  return number;
}

}  // namespace rayo::raylet
