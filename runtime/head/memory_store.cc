#include "runtime/head/memory_store.h"

namespace rayo::head {

base::Status MemoryStore::apply(const Batch& batch) {
  if (!error_.ok()) return error_;
  for (const auto& write : batch.writes()) {
    if (write.value) {
      rows_[{write.table, write.key}] = *write.value;
    } else {
      rows_.erase({write.table, write.key});
    }
  }
  ++commits_;
  for (auto& watcher : watchers_) watcher(batch);
  return {};
}

base::StatusOr<std::vector<Row>> MemoryStore::load_all() {
  std::vector<Row> out;
  for (const auto& [at, value] : rows_) out.push_back({at.first, at.second, value});
  return out;
}

}  // namespace rayo::head
