#include "runtime/raylet/processes.h"

#include <algorithm>

#include "runtime/rpc/proto_ids.h"

namespace rayo::raylet {
namespace {

constexpr size_t kDeadKept = 256;  // records of ended processes, for `list workers`, `logs` and late callers

const char* kind_name(proto::ProcessKind kind) {
  if (kind == proto::DRIVER) return "driver";
  return kind == proto::ZYGOTE ? "zygote" : "worker";
}

}  // namespace

LocalProcess& Processes::add(ProcessId id, proto::ProcessKind kind, JobId job) {
  auto& slot = processes_[id];
  if (!slot) slot = std::make_unique<LocalProcess>();
  slot->id = id;
  slot->kind = kind;
  slot->job = job;
  slot->started = base::system_clock().wall();
  on_come_();
  return *slot;
}

void Processes::set_kind(LocalProcess& process, proto::ProcessKind kind) {
  process.kind = kind;
  on_come_();
}

LocalProcess* Processes::find(ProcessId id) {
  auto found = processes_.find(id);
  return found == processes_.end() ? nullptr : found->second.get();
}

void Processes::end(ProcessId id, const proto::DeathRecord& death) {
  auto found = processes_.find(id);
  if (found == processes_.end()) return;
  std::unique_ptr<LocalProcess> process = std::move(found->second);
  processes_.erase(found);
  if (process->wire) process->wire->close();
  auto info = describe(*process, "dead");
  *info.mutable_death() = death;
  dead_.push_back(std::move(info));
  if (dead_.size() > kDeadKept) dead_.pop_front();
  for (const auto& listener : listeners_) listener(*process, death);
}

const proto::DeathRecord* Processes::death_of(ProcessId id) const {
  for (const auto& info : dead_)
    if (rpc::from_proto<ProcessId>(info.process()) == id) return &info.death();
  return nullptr;
}

bool Processes::send(ProcessId to, uint64_t call_id, const proto::ToWorker& message,
                     std::vector<base::Fd> descriptors) {
  LocalProcess* process = find(to);
  return process && process->wire && process->wire->send(call_id, message, std::move(descriptors));
}

int Processes::count(proto::ProcessKind kind) const {
  return static_cast<int>(std::count_if(processes_.begin(), processes_.end(),
                                        [kind](const auto& entry) { return entry.second->kind == kind; }));
}

std::vector<ProcessId> Processes::ids() const {
  std::vector<ProcessId> ids;
  for (const auto& [id, process] : processes_) ids.push_back(id);
  return ids;
}

std::vector<proto::WorkerInfo> Processes::list(const std::function<std::string(ProcessId)>& state_of) const {
  std::vector<proto::WorkerInfo> infos;
  for (const auto& [id, process] : processes_) infos.push_back(describe(*process, state_of(id)));
  infos.insert(infos.end(), dead_.begin(), dead_.end());
  return infos;
}

proto::WorkerInfo Processes::describe(const LocalProcess& process, std::string state) const {
  proto::WorkerInfo info;
  rpc::to_proto(process.id, info.mutable_process());
  rpc::to_proto(node_, info.mutable_node());
  info.set_pid(process.pid);
  info.set_kind(kind_name(process.kind));
  rpc::to_proto(process.job, info.mutable_job());
  info.set_state(std::move(state));
  if (process.actor) rpc::to_proto(process.actor, info.mutable_actor());
  info.set_what(process.what);
  info.set_started_at_unix_us(
      std::chrono::duration_cast<std::chrono::microseconds>(process.started.time_since_epoch()).count());
  info.set_log(process.log.string());
  return info;
}

}  // namespace rayo::raylet
