#include "runtime/raylet/call_lists.h"

#include <algorithm>
#include <utility>

#include "runtime/rpc/proto_ids.h"

namespace rayo::raylet {

namespace {
// Of a node, shared among its processes: some 8 MB of an answer that may have 20.
constexpr size_t kMostNotes = 100'000;
}  // namespace

std::vector<proto::ProcessCalls> CallLists::ask_all(base::TimePoint deadline) {
  Question question;
  const uint64_t number = ++last_;
  open_[number] = &question;
  proto::ToWorker message;
  message.mutable_tell_calls()->set_question(number);
  message.mutable_tell_calls()->set_most(kMostNotes / std::max<size_t>(1, processes_.ids().size()));
  for (ProcessId id : processes_.ids())
    if (processes_.find(id)->kind != proto::ZYGOTE && processes_.send(id, 0, message)) question.waits_for.insert(id);
  while (!question.waits_for.empty() && question.changed.wait(deadline)) {
  }
  open_.erase(number);
  return std::move(question.answers);
}

void CallLists::told(ProcessId from, const proto::CallsTold& calls) {
  auto open = open_.find(calls.question());
  LocalProcess* process = processes_.find(from);
  if (open == open_.end() || !process || open->second->waits_for.erase(from) == 0) return;
  proto::ProcessCalls& answer = open->second->answers.emplace_back();
  rpc::to_proto(from, answer.mutable_process());
  rpc::to_proto(processes_.node(), answer.mutable_node());
  rpc::to_proto(process->job, answer.mutable_job());
  answer.set_pid(process->pid);
  *answer.mutable_calls() = calls.calls();
  open->second->changed.notify_all();
}

void CallLists::process_gone(ProcessId process) {
  for (auto& [number, question] : open_)
    if (question->waits_for.erase(process) != 0) question->changed.notify_all();
}

}  // namespace rayo::raylet
