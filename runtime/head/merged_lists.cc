#include "runtime/head/merged_lists.h"

#include <algorithm>
#include <map>

#include "runtime/base/ids.h"
#include "runtime/base/text.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::head {

namespace {

using base::cat;

// A note, with the process that has it.
struct Noted {
  const proto::CallNote* note = nullptr;
  const proto::ProcessCalls* by = nullptr;
};

struct Call {
  Noted made;
  std::vector<Noted> runs;
};

// By the caller's process and its number. (The node in an object's id is nil where a remote driver says who it is.)
using Calls = std::map<std::pair<uint64_t, uint64_t>, Call>;

void set_actor(const proto::CallNote& note, const NamedByKey& named, proto::TaskInfo& task) {
  const bool constructor = note.call().counter() == 0;
  task.set_type(constructor ? "constructor" : note.actor() == 0 ? "task" : "actor_call");
  if (note.actor() == 0) return;
  auto actor = named.actors.find(note.actor());
  if (actor == named.actors.end()) return;
  *task.mutable_actor() = actor->second.id;
  // A language whose methods have no names of their own says "add".
  if (!constructor && task.name().find_first_of(":.") == std::string::npos)
    task.set_name(cat(actor->second.class_name, ".", task.name()));
}

void set_caller(const Noted& made, proto::TaskInfo& task) {
  *task.mutable_caller() = made.by->process();
  task.set_caller_pid(made.by->pid());
  *task.mutable_caller_node() = made.by->node();
  task.set_submitted_at_unix_us(made.note->at_unix_us());
}

void set_run(const Noted& run, proto::TaskInfo& task) {
  *task.mutable_process() = run.by->process();
  task.set_pid(run.by->pid());
  *task.mutable_node() = run.by->node();
  task.set_started_at_unix_us(run.note->at_unix_us());
  task.set_ended_at_unix_us(run.note->ended_at_unix_us());
}

// `run` is empty where nobody is known to have run it.
proto::TaskInfo task_of(const Noted& made, const Noted& run, uint32_t attempt, const NamedByKey& named) {
  const Noted& first = made.note ? made : run;
  proto::TaskInfo task;
  *task.mutable_call() = first.note->call();
  task.set_attempt(attempt);
  task.set_name(first.note->name());
  task.set_state(run.note ? run.note->state() : made.note->state());
  *task.mutable_job() = first.by->job();
  set_actor(*first.note, named, task);
  if (made.note) set_caller(made, task);
  if (run.note) set_run(run, task);
  return task;
}

int64_t newest(const proto::TaskInfo& task) {
  return std::max({task.submitted_at_unix_us(), task.started_at_unix_us(), task.ended_at_unix_us()});
}

}  // namespace

NamedByKey::NamedByKey(const ClusterState& state) {
  for (const auto& [id, actor] : state.actors.all())
    actors[base::short_id(id)] = {rpc::to_proto(id), actor.spec.class_name()};
  for (const auto& [id, node] : state.nodes.all()) nodes[base::short_id(id)] = rpc::to_proto(id);
}

proto::ListReply tasks_of(const proto::ListReply& told, const NamedByKey& named) {
  Calls calls;
  std::vector<proto::TaskInfo> tasks;
  for (const auto& by : told.calls()) {
    for (const auto& note : by.calls()) {
      if (note.call().counter() == 0) {
        tasks.push_back(task_of({}, {&note, &by}, 0, named));
        continue;
      }
      Call& call = calls[{note.call().process(), note.call().counter()}];
      if (note.made())
        call.made = {&note, &by};
      else
        call.runs.push_back({&note, &by});
    }
  }
  for (auto& [key, call] : calls) {
    std::ranges::sort(call.runs, {}, [](const Noted& run) { return run.note->at_unix_us(); });
    uint32_t attempt = 0;
    if (call.runs.empty()) tasks.push_back(task_of(call.made, {}, 0, named));
    for (const Noted& run : call.runs) tasks.push_back(task_of(call.made, run, attempt++, named));
  }
  std::ranges::stable_sort(tasks, std::greater<>(), newest);
  proto::ListReply out;
  tasks.resize(std::min(tasks.size(), kMostListed));
  for (auto& task : tasks) *out.add_tasks() = std::move(task);
  return out;
}

proto::ListReply objects_of(const proto::ListReply& told, const NamedByKey& named) {
  std::map<ObjectId, proto::ObjectInfo> merged;
  for (const auto& part : told.objects()) {
    auto [found, fresh] = merged.try_emplace(rpc::from_proto(part.object()), part);
    proto::ObjectInfo& whole = found->second;
    if (fresh) {
      auto home = named.nodes.find(part.object().home());
      if (home != named.nodes.end()) *whole.mutable_home() = home->second;
      continue;
    }
    whole.set_references(whole.references() + part.references());
    whole.set_pins(whole.pins() + part.pins());
    whole.mutable_copies()->MergeFrom(part.copies());
    whole.set_size_bytes(std::max(whole.size_bytes(), part.size_bytes()));
    if (whole.state() == "pending") {
      whole.set_state(part.state());
      whole.set_failure(part.failure());
    }
    if (!whole.has_maker() && part.has_maker()) {
      *whole.mutable_maker() = part.maker();
      whole.set_maker_pid(part.maker_pid());
    }
  }
  std::vector<proto::ObjectInfo> objects;
  for (auto& [id, object] : merged) objects.push_back(std::move(object));
  std::ranges::stable_sort(objects, std::greater<>(), &proto::ObjectInfo::size_bytes);
  objects.resize(std::min(objects.size(), kMostListed));
  proto::ListReply out;
  for (auto& object : objects) *out.add_objects() = std::move(object);
  return out;
}

}  // namespace rayo::head
