// If these fail: `rayo list tasks|objects` shows one call as two, a stranger's run as this call's, or wrong counts of references.
#include "runtime/head/merged_lists.h"

#include <gtest/gtest.h>

#include "tests/testkit/manual_clock.h"

namespace rayo::head {
namespace {

constexpr uint64_t kDriver = 2, kWorker = 3, kOther = 4;

class MergedListsTest : public testing::Test {
 protected:
  MergedListsTest() { named_.actors[55] = {rpc_id(55), "Counter"}; }

  static proto::Id rpc_id(uint64_t high) {
    proto::Id id;
    id.set_high(high);
    return id;
  }
  proto::ProcessCalls& process(uint64_t id) {
    proto::ProcessCalls& calls = *told_.add_calls();
    *calls.mutable_process() = rpc_id(id);
    *calls.mutable_node() = rpc_id(100 + id);
    calls.set_pid(static_cast<int64_t>(1000 + id));
    return calls;
  }
  static proto::CallNote& note(proto::ProcessCalls& by, uint64_t counter, int64_t at, const std::string& state) {
    proto::CallNote& note = *by.add_calls();
    note.mutable_call()->set_process(kDriver);
    note.mutable_call()->set_counter(counter);
    note.set_name("half");
    note.set_at_unix_us(at);
    note.set_state(state);
    note.set_made(by.process().high() == kDriver);
    return note;
  }
  proto::ListReply tasks() { return tasks_of(told_, named_); }

  testkit::ManualClock clock_;
  ClusterState state_{clock_};
  NamedByKey named_{state_};
  proto::ListReply told_;
};

TEST_F(MergedListsTest, ACallAndItsRunAreOneRow) {
  note(process(kDriver), 1, 10, "submitted");
  note(process(kWorker), 1, 20, "finished").set_ended_at_unix_us(30);
  const proto::ListReply reply = tasks();
  ASSERT_EQ(reply.tasks_size(), 1);
  const proto::TaskInfo& task = reply.tasks(0);
  EXPECT_EQ(task.type(), "task");
  EXPECT_EQ(task.state(), "finished");
  EXPECT_EQ(task.caller().high(), kDriver);
  EXPECT_EQ(task.caller_pid(), 1002);
  EXPECT_EQ(task.process().high(), kWorker);
  EXPECT_EQ(task.node().high(), 100 + kWorker);
  EXPECT_EQ(task.submitted_at_unix_us(), 10);
  EXPECT_EQ(task.started_at_unix_us(), 20);
  EXPECT_EQ(task.ended_at_unix_us(), 30);
}

TEST_F(MergedListsTest, WhatNobodyHasRunIsToldByItsCallerAlone) {
  note(process(kDriver), 1, 10, "waiting");
  const proto::ListReply reply = tasks();
  ASSERT_EQ(reply.tasks_size(), 1);
  EXPECT_EQ(reply.tasks(0).state(), "waiting");
  EXPECT_FALSE(reply.tasks(0).has_process());
}

TEST_F(MergedListsTest, AttemptsAreRowsInTheirOrderAndTheNewestComesFirst) {
  note(process(kDriver), 1, 10, "submitted");
  note(process(kWorker), 1, 40, "running");
  note(process(kOther), 1, 20, "failed").set_ended_at_unix_us(30);
  const proto::ListReply reply = tasks();
  ASSERT_EQ(reply.tasks_size(), 2);
  EXPECT_EQ(reply.tasks(0).attempt(), 1u);
  EXPECT_EQ(reply.tasks(0).state(), "running");
  EXPECT_EQ(reply.tasks(1).attempt(), 0u);
  EXPECT_EQ(reply.tasks(1).process().high(), kOther);
}

TEST_F(MergedListsTest, AMethodWithoutAClassInItsNameGetsItsActors) {
  proto::ProcessCalls& worker = process(kWorker);
  proto::CallNote& call = note(worker, 7, 10, "finished");
  call.set_actor(55);
  call.set_name("add");
  proto::CallNote& constructor = note(worker, 0, 5, "finished");
  constructor.set_actor(55);
  constructor.set_name("Counter");
  proto::CallNote& gone = note(worker, 8, 1, "finished");
  gone.set_actor(56);
  gone.set_name("add");
  const proto::ListReply reply = tasks();
  ASSERT_EQ(reply.tasks_size(), 3);
  EXPECT_EQ(reply.tasks(0).type(), "actor_call");
  EXPECT_EQ(reply.tasks(0).name(), "Counter.add");
  EXPECT_EQ(reply.tasks(0).actor().high(), 55u);
  EXPECT_EQ(reply.tasks(1).type(), "constructor");
  EXPECT_EQ(reply.tasks(1).name(), "Counter");
  EXPECT_EQ(reply.tasks(2).name(), "add") << "of an actor that nobody knows any more";
}

TEST_F(MergedListsTest, AnObjectIsOneRowWithAllItsCopiesAndReferences) {
  named_.nodes[1] = rpc_id(1);
  const auto object = [&](uint64_t counter, const std::string& state, int64_t size) -> proto::ObjectInfo& {
    proto::ObjectInfo& info = *told_.add_objects();
    info.mutable_object()->set_home(1);
    info.mutable_object()->set_counter(counter);
    info.set_state(state);
    info.set_size_bytes(size);
    info.set_references(2);
    return info;
  };
  object(1, "value", 10);
  object(2, "pending", 0).add_copies()->set_high(11);
  proto::ObjectInfo& home = object(2, "arena", 99);
  home.add_copies()->set_high(12);
  home.mutable_maker()->set_high(7);
  home.set_maker_pid(70);
  const proto::ListReply reply = objects_of(told_, named_);
  ASSERT_EQ(reply.objects_size(), 2);
  const proto::ObjectInfo& large = reply.objects(0);
  EXPECT_EQ(large.state(), "arena");
  EXPECT_EQ(large.size_bytes(), 99);
  EXPECT_EQ(large.references(), 4);
  EXPECT_EQ(large.copies_size(), 2);
  EXPECT_EQ(large.home().high(), 1u);
  EXPECT_EQ(large.maker_pid(), 70);
  EXPECT_EQ(reply.objects(1).references(), 2);
}

}  // namespace
}  // namespace rayo::head
