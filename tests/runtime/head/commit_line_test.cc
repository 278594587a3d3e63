// What a user loses if these fail: a name that was promised before it was on the disk, or a head that does
// not recover from a full one.
#include "runtime/head/commit_line.h"

#include <gtest/gtest.h>

#include "runtime/head/timeouts.h"
#include "tests/testkit/memory_store.h"

namespace rayo::head {
namespace {

Outcome outcome(const std::string& key) {
  Outcome out;
  out.persist.put("meta", key, "1");
  out.send({}).mutable_notice()->mutable_notice()->set_text(key);
  return out;
}

struct Told {
  std::vector<std::string> texts;
  void operator()(Outcome& outcome) {
    for (const auto& send : outcome.sends) texts.push_back(send.message.notice().notice().text());
  }
};

TEST(CommitLine, OutcomesAreToldInOrderAfterTheyAreWritten) {
  base::run_in_loop([] {
    testkit::MemoryStore store;
    Told told;
    CommitLine line(store, [&](Outcome& out) {
      EXPECT_FALSE(store.load_all().value().empty());
      told(out);
    });
    base::TaskGroup fibers;
    line.submit(outcome("a"));
    line.submit(outcome("b"));
    fibers.spawn("line", [&] { line.run(); });
    EXPECT_TRUE(line.commit(outcome("c")).ok());
    EXPECT_EQ(told.texts, (std::vector<std::string>{"a", "b", "c"}));
    EXPECT_EQ(store.commits(), 1);  // as a group
  });
}

// A new actor's start: behind the next commit it would wait for the disk twice.
TEST(CommitLine, WhatFollowsAPromiseIsToldBeforeTheNextCommit) {
  base::run_in_loop([] {
    testkit::MemoryStore store;
    Told told;
    CommitLine line(store, std::ref(told));
    base::TaskGroup fibers;
    fibers.spawn("line", [&] { line.run(); });
    const auto start = [&](Outcome& next) {
      line.submit(outcome("fact"));  // decided before what follows is told, and its row is still to be written
      next.send({}).mutable_notice()->mutable_notice()->set_text("start");
    };
    EXPECT_TRUE(line.commit(outcome("actor"), start).ok());
    EXPECT_TRUE(line.barrier().ok());
    EXPECT_EQ(told.texts, (std::vector<std::string>{"actor", "start", "fact"}));
    store.fail_with(base::failed(absl::StatusCode::kResourceExhausted, "no space left", "make room"));
    EXPECT_FALSE(line.commit(outcome("refused"), start).ok());
    EXPECT_EQ(told.texts.size(), 3u) << "what follows a promise that was not kept does not happen";
  });
}

TEST(CommitLine, WithoutRowsNothingWaits) {
  base::run_in_loop([] {
    testkit::MemoryStore store;
    Told told;
    CommitLine line(store, std::ref(told));
    Outcome out;
    out.send({}).mutable_notice()->mutable_notice()->set_text("now");
    line.submit(std::move(out));
    EXPECT_EQ(told.texts, (std::vector<std::string>{"now"}));
    EXPECT_TRUE(line.barrier().ok());
  });
}

TEST(CommitLine, AFullDiskRefusesPromisesAndKeepsFactsUntilThereIsRoom) {
  base::run_in_loop([] {
    testkit::MemoryStore store;
    Told told;
    CommitLine line(store, std::ref(told));
    base::TaskGroup fibers;
    fibers.spawn("line", [&] { line.run(); });
    store.fail_with(base::failed(absl::StatusCode::kResourceExhausted, "no space left", "make room"));
    auto refused = line.commit(outcome("promise"));
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_NE(base::message(refused).find("read_only"), std::string::npos);
    EXPECT_EQ(base::next_step(refused), "make room");
    EXPECT_TRUE(told.texts.empty());
    line.submit(outcome("fact"));
    EXPECT_FALSE(line.commit(outcome("promise again")).ok());
    EXPECT_EQ(told.texts, (std::vector<std::string>{"fact"}));
    store.fail_with({});
    auto deadline = base::current_loop()->deadline(10s);
    while (!line.refusal().ok() && base::current_loop()->now() < deadline) base::sleep_for(20ms);
    EXPECT_TRUE(line.refusal().ok());
    auto rows = store.load_all().value();
    EXPECT_TRUE(std::ranges::any_of(rows, [](const Row& row) { return row.key == "fact"; }));
    EXPECT_TRUE(std::ranges::none_of(rows, [](const Row& row) { return row.key == "promise"; }));
  });
}

}  // namespace
}  // namespace rayo::head
