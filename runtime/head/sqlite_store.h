// The control log in one SQLite file: WAL, synchronous FULL (a commit is on the disk when apply() returns), locked
// exclusively (a second head on the same state is refused). One SQL table for each table of ours: key, value.
//
//   RAYO_ASSIGN_OR_RETURN(auto store, SqliteStore::open(state_dir / "control.db"));
//
// Errors besides those of control_store.h: open() gives FailedPrecondition where another head has the file, DataLoss
// where it is no database of ours.
#pragma once

#include <memory>

#include "runtime/base/session.h"
#include "runtime/head/control_store.h"

struct sqlite3;
struct sqlite3_stmt;

namespace rayo::head {

class SqliteStore final : public ControlStore {
 public:
  // 4 KiB each: 4 GiB is more than the head's tables may hold in memory.
  static constexpr int64_t kMostPages = 1 << 20;

  static base::StatusOr<std::unique_ptr<SqliteStore>> open(const base::Path& file, int64_t most_pages = kMostPages);
  ~SqliteStore() override;
  SqliteStore(const SqliteStore&) = delete;
  SqliteStore& operator=(const SqliteStore&) = delete;

  base::Status apply(const Batch& batch) override;
  base::StatusOr<std::vector<Row>> load_all() override;
  void watch(std::function<void(const Batch&)> watcher) override { watchers_.push_back(std::move(watcher)); }
  void set_most_pages(int64_t pages);

 private:
  SqliteStore(base::Path file, sqlite3* db) : file_(std::move(file)), db_(db) {}
  base::Status prepare(int64_t most_pages);
  base::Status still_there();
  base::Status write(const Write& write);
  base::Status execute(const std::string& sql);
  base::StatusOr<sqlite3_stmt*> statement(const std::string& sql);
  base::Status error(int code, const std::string& what);

  base::Path file_;
  sqlite3* db_;
  std::vector<std::pair<std::string, sqlite3_stmt*>> statements_;
  std::vector<std::function<void(const Batch&)>> watchers_;
};

}  // namespace rayo::head
