// A control store in memory that fails when a test says so: the same promises as the real one but for the end of the
// process.
#pragma once

#include <map>

#include "runtime/head/control_store.h"

namespace rayo::head {

class MemoryStore final : public ControlStore {
 public:
  base::Status apply(const Batch& batch) override;
  base::StatusOr<std::vector<Row>> load_all() override;
  void watch(std::function<void(const Batch&)> watcher) override { watchers_.push_back(std::move(watcher)); }

  // Every apply from now on is refused with this; OK ends it.
  void fail_with(base::Status error) { error_ = std::move(error); }
  int commits() const { return commits_; }

 private:
  std::map<std::pair<std::string, std::string>, std::string> rows_;
  std::vector<std::function<void(const Batch&)>> watchers_;
  base::Status error_;
  int commits_ = 0;
};

}  // namespace rayo::head
