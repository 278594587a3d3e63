// A control store in memory that fails when a test says so: the same promises as the real one but for the end of the
// process.
#pragma once

#include <map>

#include "runtime/head/control_store.h"

namespace rayo::testkit {

class MemoryStore final : public head::ControlStore {
 public:
  base::Status apply(const head::Batch& batch) override {
    if (!error_.ok()) return error_;
    for (const auto& write : batch.writes()) {
      if (write.value)
        rows_[{write.table, write.key}] = *write.value;
      else
        rows_.erase({write.table, write.key});
    }
    ++commits_;
    for (auto& watcher : watchers_) watcher(batch);
    return {};
  }
  base::StatusOr<std::vector<head::Row>> load_all() override {
    std::vector<head::Row> out;
    for (const auto& [at, value] : rows_) out.push_back({at.first, at.second, value});
    return out;
  }
  void watch(std::function<void(const head::Batch&)> watcher) override { watchers_.push_back(std::move(watcher)); }

  // Every apply from now on is refused with this; OK ends it.
  void fail_with(base::Status error) { error_ = std::move(error); }
  int commits() const { return commits_; }

 private:
  std::map<std::pair<std::string, std::string>, std::string> rows_;
  std::vector<std::function<void(const head::Batch&)>> watchers_;
  base::Status error_;
  int commits_ = 0;
};

}  // namespace rayo::testkit
