#include "runtime/worker/task_window.h"

#include <algorithm>
#include <utility>

namespace rayo::worker {

void TaskPace::took(uint64_t code, base::Duration span) {
  if (expected_.size() >= kMostPaces && !expected_.contains(code)) expected_.clear();
  auto [at, fresh] = expected_.try_emplace(code, span);
  if (fresh) return;
  base::Duration& expected = at->second;
  expected = span >= expected ? span : expected - (expected - span) / 8;
}

base::Duration TaskPace::expected(uint64_t code) const {
  const auto found = expected_.find(code);
  return found == expected_.end() ? kUnmeasured : found->second;
}

bool TaskWindow::takes(base::Duration expected) const {
  if (tasks_.empty()) return true;
  return !halted_ && tasks_.size() < kMostAhead && expected_ + expected <= kAhead;
}

void TaskWindow::sent(Task task, base::TimePoint now) {
  if (tasks_.empty()) moved_ = now;
  expected_ += task.expected;
  tasks_.push_back(std::move(task));
}

std::deque<TaskWindow::Task>::iterator TaskWindow::find(uint64_t call_id) {
  return std::find_if(tasks_.begin(), tasks_.end(), [&](const Task& task) { return task.call_id == call_id; });
}

std::optional<uint64_t> TaskWindow::ended(uint64_t call_id, base::TimePoint now) {
  const auto at = find(call_id);
  if (at == tasks_.end()) return std::nullopt;
  const uint64_t code = at->code;
  expected_ -= at->expected;
  tasks_.erase(at);
  moved_ = now;
  halted_ = false;
  return code;
}

void TaskWindow::given_up(uint64_t call_id) {
  const auto at = find(call_id);
  if (at == tasks_.end()) return;
  at->call.reset();
  expected_ += kUnmeasured - std::exchange(at->expected, kUnmeasured);
}

bool TaskWindow::returned(uint64_t call_id, std::unique_ptr<OutgoingCall>& call) {
  const auto at = find(call_id);
  if (at == tasks_.end()) return false;
  call = std::move(at->call);
  expected_ -= at->expected;
  tasks_.erase(at);
  return true;
}

base::TimePoint TaskWindow::look_at() const { return tasks_.size() > 1 && !halted_ ? moved_ + kStall : base::kForever; }

bool TaskWindow::stalled(base::TimePoint now) {
  if (now < look_at()) return false;
  halted_ = true;
  return true;
}

std::vector<std::unique_ptr<OutgoingCall>> TaskWindow::take_unbegun() {
  std::vector<std::unique_ptr<OutgoingCall>> out;
  for (; tasks_.size() > 1; tasks_.pop_back())
    if (tasks_.back().call) out.push_back(std::move(tasks_.back().call));
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<std::unique_ptr<OutgoingCall>> TaskWindow::take_rest() {
  std::vector<std::unique_ptr<OutgoingCall>> out;
  for (Task& task : tasks_)
    if (task.call) out.push_back(std::move(task.call));
  tasks_.clear();
  return out;
}

}  // namespace rayo::worker
