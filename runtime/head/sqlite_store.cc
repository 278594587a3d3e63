#include "runtime/head/sqlite_store.h"

#include <algorithm>
#include <array>
#include <sqlite3.h>

#include "runtime/base/check.h"
#include "runtime/base/text.h"

namespace rayo::head {

using base::cat;

namespace {

constexpr std::array<const char*, 6> kTables = {"actors", "jobs", "key_value", "meta", "names", "nodes"};

absl::StatusCode code_of(int sqlite) {
  switch (sqlite & 0xff) {
    case SQLITE_FULL:
      return absl::StatusCode::kResourceExhausted;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::StatusCode::kFailedPrecondition;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::StatusCode::kDataLoss;
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return absl::StatusCode::kPermissionDenied;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

const char* next_step(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kResourceExhausted:
      return "make room on that file system: the head goes on by itself";
    case absl::StatusCode::kFailedPrecondition:
      return "another head uses it: `rayo status` finds it, `rayo stop` ends it";
    case absl::StatusCode::kDataLoss:
      return "move the file away to start a fresh cluster";
    case absl::StatusCode::kPermissionDenied:
      return "is the directory there, and may we write it?";
    default:
      return "look at the disk's health (dmesg)";
  }
}

std::string text_of(sqlite3_stmt* statement, int column) {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement, column));
  return bytes ? std::string(bytes, static_cast<size_t>(sqlite3_column_bytes(statement, column))) : std::string();
}

}  // namespace

base::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::open(const base::Path& file, int64_t most_pages) {
  sqlite3* db = nullptr;
  int code =
      sqlite3_open_v2(file.c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  std::unique_ptr<SqliteStore> store(new SqliteStore(file, db));
  if (code != SQLITE_OK) return store->error(code, "cannot open the control store");
  sqlite3_extended_result_codes(db, 1);
  RAYO_RETURN_IF_ERROR(store->prepare(most_pages));
  return store;
}

base::Status SqliteStore::prepare(int64_t most_pages) {
  for (const char* pragma : {"PRAGMA locking_mode=EXCLUSIVE", "PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL",
                             "PRAGMA wal_autocheckpoint=1000", "PRAGMA temp_store=MEMORY"}) {
    RAYO_RETURN_IF_ERROR(execute(pragma));
  }
  for (const char* table : kTables) {
    RAYO_RETURN_IF_ERROR(execute(
        cat("CREATE TABLE IF NOT EXISTS ", table, " (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID")));
  }
  set_most_pages(most_pages);
  return {};
}

SqliteStore::~SqliteStore() {
  for (auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  sqlite3_close(db_);
}

void SqliteStore::set_most_pages(int64_t pages) {
  // Cannot fail: a number below the present size means the present size.
  sqlite3_exec(db_, cat("PRAGMA max_page_count=", pages).c_str(), nullptr, nullptr, nullptr);
}

base::Status SqliteStore::error(int code, const std::string& what) {
  auto status = code_of(code);
  // SQLite's own text of a file that cannot be opened does not say why.
  const int cause = (code & 0xff) == SQLITE_CANTOPEN && db_ ? sqlite3_system_errno(db_) : 0;
  if (cause != 0) {
    const base::Status said = base::failed_errno(cause, cat(what, " (", file_.string(), ")"), next_step(status));
    return base::failed(status, base::message(said), base::next_step(said));
  }
  return base::failed(status, cat(what, " (", file_.string(), "): ", db_ ? sqlite3_errmsg(db_) : sqlite3_errstr(code)),
                      next_step(status));
}

base::Status SqliteStore::execute(const std::string& sql) {
  int code = sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? base::Status() : error(code, "the control store refuses");
}

base::StatusOr<sqlite3_stmt*> SqliteStore::statement(const std::string& sql) {
  auto found = std::ranges::find(statements_, sql, &std::pair<std::string, sqlite3_stmt*>::first);
  if (found != statements_.end()) return found->second;
  sqlite3_stmt* made = nullptr;
  int code = sqlite3_prepare_v3(db_, sql.c_str(), -1, SQLITE_PREPARE_PERSISTENT, &made, nullptr);
  if (code != SQLITE_OK) return error(code, "the control store refuses");
  statements_.emplace_back(sql, made);
  return made;
}

base::Status SqliteStore::write(const Write& write) {
  RAYO_CHECK(std::ranges::any_of(kTables, [&](const char* table) { return write.table == table; }), "tables are ours");
  auto sql = write.value ? cat("INSERT OR REPLACE INTO ", write.table, " VALUES (?1, ?2)")
                         : cat("DELETE FROM ", write.table, " WHERE key = ?1");
  RAYO_ASSIGN_OR_RETURN(auto* prepared, statement(sql));
  sqlite3_bind_blob(prepared, 1, write.key.data(), static_cast<int>(write.key.size()), SQLITE_STATIC);
  // An empty value is a value: a null pointer would bind NULL.
  const char* value = write.value && !write.value->empty() ? write.value->data() : "";
  if (write.value) sqlite3_bind_blob(prepared, 2, value, static_cast<int>(write.value->size()), SQLITE_STATIC);
  int code = sqlite3_step(prepared);
  base::Status done = code == SQLITE_DONE ? base::Status() : error(code, "cannot write the control store");
  sqlite3_reset(prepared);
  sqlite3_clear_bindings(prepared);
  return done;
}

// An unlinked file would still say OK to every write, and all of it would be lost.
base::Status SqliteStore::still_there() {
  int moved = 0;
  sqlite3_file_control(db_, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  if (!moved) return {};
  return base::failed(absl::StatusCode::kFailedPrecondition,
                      cat("the control store ", file_.string(), " is no longer there: it was moved or deleted"),
                      "put it back; else `rayo stop` and start a fresh cluster");
}

base::Status SqliteStore::apply(const Batch& batch) {
  RAYO_RETURN_IF_ERROR(still_there());
  RAYO_RETURN_IF_ERROR(execute("BEGIN IMMEDIATE"));
  base::Status done;
  for (const auto& each : batch.writes()) {
    done = write(each);
    if (!done.ok()) break;
  }
  if (done.ok()) done = execute("COMMIT");
  if (!done.ok()) {
    // After an error such as a full disk SQLite has rolled back already, and says so here.
    if (!sqlite3_get_autocommit(db_)) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
    return done;
  }
  for (auto& watcher : watchers_) watcher(batch);
  return {};
}

base::StatusOr<std::vector<Row>> SqliteStore::load_all() {
  std::vector<Row> out;
  for (const char* table : kTables) {
    RAYO_ASSIGN_OR_RETURN(auto* select, statement(cat("SELECT key, value FROM ", table, " ORDER BY key")));
    int code;
    while ((code = sqlite3_step(select)) == SQLITE_ROW) out.push_back({table, text_of(select, 0), text_of(select, 1)});
    sqlite3_reset(select);
    if (code != SQLITE_DONE) return error(code, "cannot read the control store");
  }
  return out;
}

}  // namespace rayo::head
