#include "runtime/head/commit_line.h"

#include "runtime/base/log.h"
#include "runtime/base/text.h"
#include "runtime/head/timeouts.h"

namespace rayo::head {

CommitLine::CommitLine(ControlStore& store, std::function<void(Outcome&)> deliver)
    : store_(store), deliver_(std::move(deliver)) {}

void CommitLine::submit(Outcome outcome) {
  if (outcome.empty()) return;
  if (outcome.persist.empty() && !writing_ && queue_.empty()) {
    deliver_(outcome);
  } else {
    queue_.push({std::move(outcome), nullptr, nullptr});
  }
}

base::Status CommitLine::commit(Outcome outcome, Then then) {
  if (outcome.persist.empty() && !writing_ && queue_.empty()) {
    deliver_(outcome);
    follow(then);
    return {};
  }
  auto done = std::make_shared<Done>();
  if (!queue_.push({std::move(outcome), done, std::move(then)})) {
    return base::failed(absl::StatusCode::kUnavailable, "the head is ending", "ask again");
  }
  auto status = done->wait();
  return status ? *status : base::failed(absl::StatusCode::kCancelled, "the head is ending");
}

void CommitLine::run() {
  while (!base::fiber_cancelled()) {
    auto deadline = unwritten_.empty() && refusal_.ok()
                        ? base::kForever
                        : base::deadline_after(base::current_loop()->now(), kStoreRetry);
    write_all(queue_.pop(deadline));
  }
  queue_.close();
  write_all(queue_.try_pop());
}

// `first` and what has gathered behind it.
void CommitLine::write_all(std::optional<Entry> first) {
  std::vector<Entry> entries;
  if (first) entries.push_back(std::move(*first));
  while (auto next = queue_.try_pop()) entries.push_back(std::move(*next));
  write(std::move(entries));
}

base::Status CommitLine::apply(const std::vector<Entry>& entries) {
  Batch batch;
  for (const auto& [at, value] : unwritten_) {
    value ? batch.put(at.first, at.second, *value) : batch.erase(at.first, at.second);
  }
  for (const auto& entry : entries) batch.append(Batch(entry.outcome.persist));
  // While it refuses, a row of our own tells when it takes writes again.
  if (!refusal_.ok() && batch.empty()) batch.put("meta", "probe", "");
  if (batch.empty()) return {};
  writing_ = true;
  auto status = base::run_on_thread(writer_, [&] { return store_.apply(batch); });
  writing_ = false;
  return status;
}

void CommitLine::write(std::vector<Entry> entries) {
  auto status = apply(entries);
  if (status.ok() != refusal_.ok()) {
    if (status.ok()) {
      base::log().warn("the control store takes changes again");
    } else {
      base::log().error("read_only: {}", base::message(status));
    }
  }
  refusal_ = status.ok() ? status : base::within(status, "read_only: the head takes no changes");
  if (status.ok()) unwritten_.clear();
  for (auto& entry : entries) deliver(entry, refusal_);
}

void CommitLine::deliver(Entry& entry, const base::Status& written) {
  bool promise = entry.done != nullptr;
  if (!written.ok() && !promise) keep(entry.outcome.persist);
  if (written.ok() || !promise) deliver_(entry.outcome);
  if (written.ok()) follow(entry.then);
  if (promise) entry.done->set(entry.outcome.persist.empty() ? base::Status() : written);
}

void CommitLine::follow(const Then& then) {
  if (!then) return;
  Outcome next;
  then(next);
  if (next.persist.empty()) {
    deliver_(next);
  } else {
    queue_.push({std::move(next), nullptr, nullptr});
  }
}

void CommitLine::keep(const Batch& batch) {
  for (const auto& write : batch.writes()) unwritten_[{write.table, write.key}] = write.value;
}

}  // namespace rayo::head
