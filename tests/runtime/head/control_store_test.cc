// What a user loses if these fail: names and actors that the cluster promised to remember. One conformance
// test for every store.
#include "runtime/head/control_store.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/text.h"
#include "runtime/head/sqlite_store.h"
#include "tests/testkit/memory_store.h"

namespace rayo::head {
namespace {

using base::cat;

struct Kind {
  const char* name;
  // Makes the store refuse writes, and take them again.
  std::function<void(ControlStore&)> fill, empty;
  std::function<std::unique_ptr<ControlStore>(const base::Path&)> open;
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

Kind memory() {
  return {"memory",
          [](ControlStore& s) {
            static_cast<testkit::MemoryStore&>(s).fail_with(base::failed(absl::StatusCode::kResourceExhausted, "full"));
          },
          [](ControlStore& s) { static_cast<testkit::MemoryStore&>(s).fail_with({}); },
          [](const base::Path&) { return std::make_unique<testkit::MemoryStore>(); }};
}

Kind sqlite() {
  return {"sqlite", [](ControlStore& s) { static_cast<SqliteStore&>(s).set_most_pages(1); },
          [](ControlStore& s) { static_cast<SqliteStore&>(s).set_most_pages(SqliteStore::kMostPages); },
          [](const base::Path& dir) { return std::move(SqliteStore::open(dir / "control.db")).value(); }};
}

struct TempDir {
  TempDir() {
    char name[] = "/tmp/rayo-store-XXXXXX";
    path = mkdtemp(name);
  }
  ~TempDir() { std::filesystem::remove_all(path); }
  base::Path path;
};

struct ControlStoreTest : ::testing::TestWithParam<Kind> {
  TempDir dir;
  std::unique_ptr<ControlStore> store = GetParam().open(dir.path);
  std::vector<Row> rows() { return store->load_all().value(); }
};

Batch put(const std::string& table, const std::string& key, const std::string& value) {
  Batch out;
  out.put(table, key, value);
  return out;
}

TEST_P(ControlStoreTest, KeepsWhatWasPutSortedByTableAndKey) {
  Batch batch = put("names", std::string("a\0b", 3), "x");
  batch.put("actors", "2", "two");
  batch.put("actors", "1", "");
  ASSERT_TRUE(store->apply(batch).ok());
  EXPECT_EQ(rows(),
            (std::vector<Row>{{"actors", "1", ""}, {"actors", "2", "two"}, {"names", std::string("a\0b", 3), "x"}}));
}

TEST_P(ControlStoreTest, LaterWritesOfABatchWin) {
  Batch batch = put("jobs", "j", "old");
  batch.put("jobs", "j", "new");
  batch.put("jobs", "gone", "x");
  batch.erase("jobs", "gone");
  batch.erase("jobs", "never was");
  ASSERT_TRUE(store->apply(batch).ok());
  ASSERT_TRUE(store->apply(batch).ok());  // twice is once
  EXPECT_EQ(rows(), (std::vector<Row>{{"jobs", "j", "new"}}));
}

TEST_P(ControlStoreTest, ARefusedBatchLeavesNothingAndRoomMendsIt) {
  ASSERT_TRUE(store->apply(put("meta", "a", "1")).ok());
  GetParam().fill(*store);
  Batch large;
  for (int i = 0; i < 200; ++i) large.put("meta", cat("b", i), std::string(4096, 'x'));
  auto refused = store->apply(large);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << base::message(refused);
  EXPECT_EQ(rows(), (std::vector<Row>{{"meta", "a", "1"}}));
  GetParam().empty(*store);
  EXPECT_TRUE(store->apply(large).ok());
  EXPECT_EQ(rows().size(), 201u);
}

TEST_P(ControlStoreTest, WatchersSeeCommittedBatchesInOrder) {
  std::vector<std::string> seen;
  store->watch([&](const Batch& batch) { seen.push_back(batch.writes().at(0).key); });
  ASSERT_TRUE(store->apply(put("meta", "a", "1")).ok());
  ASSERT_TRUE(store->apply(put("meta", "b", "1")).ok());
  EXPECT_EQ(seen, (std::vector<std::string>{"a", "b"}));
}

INSTANTIATE_TEST_SUITE_P(Stores, ControlStoreTest, ::testing::Values(memory(), sqlite()),
                         [](const auto& info) { return info.param.name; });

TEST(SqliteStore, AcknowledgedRowsSurviveKillMinusNine) {
  TempDir dir;
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  pid_t child = fork();
  if (child == 0) {
    auto store = std::move(SqliteStore::open(dir.path / "control.db")).value();
    for (int i = 0;; ++i) {
      if (!store->apply(put("meta", cat(i), "x")).ok()) _exit(1);
      if (write(pipe_fds[1], &i, sizeof i) != sizeof i) _exit(1);
    }
  }
  int acknowledged = -1;
  for (int n = 0; n < 100; ++n)
    ASSERT_EQ(read(pipe_fds[0], &acknowledged, sizeof acknowledged), ssize_t{sizeof acknowledged});
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(pipe_fds[0]);
  close(pipe_fds[1]);
  auto store = std::move(SqliteStore::open(dir.path / "control.db")).value();
  EXPECT_GT(static_cast<int>(store->load_all().value().size()), acknowledged);
}

TEST(SqliteStore, ASecondHeadIsLockedOut) {
  TempDir dir;
  auto first = SqliteStore::open(dir.path / "control.db");
  ASSERT_TRUE(first.ok());
  auto second = SqliteStore::open(dir.path / "control.db");
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition) << base::message(second.status());
}

TEST(SqliteStore, ADeletedFileIsNoticed) {
  TempDir dir;
  auto store = std::move(SqliteStore::open(dir.path / "control.db")).value();
  ASSERT_TRUE(store->apply(put("meta", "a", "1")).ok());
  std::filesystem::remove(dir.path / "control.db");
  EXPECT_EQ(store->apply(put("meta", "b", "1")).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(SqliteStore, WhatIsNoDatabaseIsNamed) {
  TempDir dir;
  std::ofstream(dir.path / "control.db") << std::string(8192, 'x');
  EXPECT_EQ(SqliteStore::open(dir.path / "control.db").status().code(), absl::StatusCode::kDataLoss);
  auto nowhere = SqliteStore::open(dir.path / "no" / "control.db").status();
  EXPECT_EQ(nowhere.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_NE(base::message(nowhere).find("No such file or directory"), std::string_view::npos) << nowhere;
}

}  // namespace
}  // namespace rayo::head
