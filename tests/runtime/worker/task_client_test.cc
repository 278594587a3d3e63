// If these fail: a task waits behind a long one though others are free, runs twice, or is called failed though it never ran.
#include "runtime/worker/task_client.h"

#include <gtest/gtest.h>
#include <set>

#include "runtime/worker/call_body.h"
#include "runtime/worker/task_window.h"
#include "tests/runtime/worker/task_wire.h"

namespace rayo::worker {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kShort = 1, kOther = 2;

class TaskClientTest : public testing::Test {
 protected:
  void grant(uint64_t process, uint64_t node = 1) {
    proto::LeaseGranted granted;
    granted.set_shape(1);
    granted.mutable_worker()->mutable_node()->set_low(node);
    granted.mutable_lease()->set_low(process);
    granted.mutable_worker()->mutable_process()->set_low(process);
    --wire_.wanted;
    client_.on_granted(granted);
  }
  ObjectSlot& submit(uint64_t function = kShort, const TaskOptions& options = {.max_retries = 0}, uint64_t which = 0) {
    ObjectSlot& result = table_.mint();
    internal::CallRequest request;
    request.function = function;
    request.which = which;
    client_.submit(options, "short", std::make_unique<OutgoingCall>(table_, wire_, result, request));
    return result;
  }
  ObjectSlot& submit_with(ObjectSlot& argument) {
    ObjectSlot& result = table_.mint();
    internal::ObjectHandle handle = argument.handle();
    internal::CallRequest request;
    request.function = kShort;
    request.refs = {&handle, 1};
    client_.submit({.max_retries = 0}, "short", std::make_unique<OutgoingCall>(table_, wire_, result, request));
    return result;
  }
  void reply(ObjectSlot& slot, uint64_t ran_us = 1) {
    CallOwner* owner = slot.owner;
    table_.fulfil(slot, {});
    owner->answered(slot.id.counter, ran_us);
  }
  // One lease, and its function known as short.
  void warm_up() {
    ObjectSlot& first = submit();
    grant(1);
    reply(first);
    wire_.sent.clear();
  }
  // The calls sent to a peer, oldest first.
  std::vector<uint64_t> calls_to(PeerId peer) const {
    std::vector<uint64_t> ids;
    for (const auto& frame : wire_.sent)
      if (frame.peer == peer && frame.header.kind == rpc::FrameKind::kCall) ids.push_back(frame.header.call_id);
    return ids;
  }
  static std::vector<uint64_t> ids(std::initializer_list<ObjectSlot*> slots) {
    std::vector<uint64_t> out;
    for (const ObjectSlot* slot : slots) out.push_back(slot->id.counter);
    return out;
  }
  void end(PeerId peer, proto::DeathKind kind = proto::EXIT) {
    proto::DeathRecord death;
    death.set_kind(kind);
    CallOwner* owner = wire_.owners.at(peer);
    owner->peer_gone(death);
    if (wire_.owners.contains(peer)) owner->link_lost();
  }
  static bool failed(const ObjectSlot& slot) { return slot.error && slot.error->kind == ErrorKind::kTaskSystem; }

  NobodyObserves observer_;
  ObjectTable table_{1, 2, observer_};
  TaskWire wire_;
  TaskClient client_{table_, wire_};
};

TEST_F(TaskClientTest, TasksStandAloneUntilTheirLengthIsKnown) {
  ObjectSlot& first = submit();
  ObjectSlot& second = submit();
  grant(1);
  EXPECT_EQ(calls_to(1), ids({&first}));
  EXPECT_EQ(wire_.wanted, 1);
  reply(first);
  EXPECT_EQ(calls_to(1), ids({&first, &second}));
}

TEST_F(TaskClientTest, ShortTasksAreSentAheadAndAskForNoMoreLeases) {
  warm_up();
  std::vector<ObjectSlot*> slots;
  for (int i = 0; i < 10; ++i) slots.push_back(&submit());
  EXPECT_EQ(calls_to(1).size(), 10u);
  EXPECT_EQ(wire_.wanted, 0);
  for (ObjectSlot* slot : slots) reply(*slot);
  EXPECT_EQ(client_.backlog(), 0u);
  for (int i = 0; i < 3; ++i) wire_.advance(kWarm);
  EXPECT_EQ(wire_.leases_returned, 1);
}

TEST_F(TaskClientTest, OnlyWhatIsToLeaveAtOnceSaysSo) {
  const auto leaves_at_once = [this](uint64_t function) {
    internal::CallRequest request;
    request.function = function;
    return client_.submit({}, "short", std::make_unique<OutgoingCall>(table_, wire_, table_.mint(), request));
  };
  EXPECT_TRUE(leaves_at_once(kShort));  // leases are asked for
  grant(1);
  reply(*table_.own(wire_.sent[0].header.call_id));
  EXPECT_TRUE(leaves_at_once(kShort));  // the worker rests
  EXPECT_FALSE(leaves_at_once(kShort));
}

TEST_F(TaskClientTest, LongTasksAreNotSentAhead) {
  warm_up();
  reply(submit(), 50'000);
  wire_.sent.clear();
  ObjectSlot& first = submit();
  submit();
  EXPECT_EQ(calls_to(1), ids({&first}));
  EXPECT_EQ(wire_.wanted, 1);
}

TEST_F(TaskClientTest, ALongTaskSaysNothingOfOtherFunctionsOfItsLanguage) {
  const auto of_python = [this](uint64_t which) -> ObjectSlot& { return submit(kShort, {.max_retries = 0}, which); };
  ObjectSlot& quick = of_python(7);
  grant(1);
  reply(quick);
  reply(of_python(8), 50'000);
  wire_.sent.clear();
  for (int i = 0; i < 10; ++i) of_python(7);
  EXPECT_EQ(calls_to(1).size(), 10u);
  of_python(8);
  EXPECT_EQ(calls_to(1).size(), 10u);
  EXPECT_EQ(wire_.wanted, 1);
}

TEST_F(TaskClientTest, WhatStandsBehindATaskThatTakesLongGoesElsewhere) {
  warm_up();
  grant(2);  // nothing to do for it yet
  ObjectSlot& slow = submit();
  ObjectSlot& second = submit();
  ObjectSlot& third = submit();
  const PeerId held = wire_.sent[0].peer, other = 3 - held;
  ASSERT_EQ(calls_to(held), ids({&slow, &second, &third}));
  wire_.advance(kStall);
  const rpc::FrameHeader asked = wire_.sent.back().header;
  EXPECT_EQ(asked.kind, rpc::FrameKind::kCancel);
  EXPECT_EQ(asked.function, rpc::kCancelTakeBack);
  EXPECT_EQ(asked.call_id, slow.id.counter);
  EXPECT_TRUE(asked.flags & rpc::kFlagUrgent);
  client_.on_returned(held, third.id.counter);
  client_.on_returned(held, second.id.counter);
  EXPECT_EQ(calls_to(other), ids({&third}));  // one at a time: they are not taken for short any more
  reply(third);
  EXPECT_EQ(calls_to(other), ids({&third, &second}));
  reply(second);
  reply(slow, 100'000);
  wire_.advance(10 * kStall);
  EXPECT_EQ(wire_.sent.back().header.kind, rpc::FrameKind::kCall);  // and nobody is asked again
}

TEST_F(TaskClientTest, WhatIsGivenBackWaitsForALeaseWhereNoneIsFree) {
  warm_up();
  ObjectSlot& slow = submit();
  ObjectSlot& second = submit();
  wire_.advance(kStall);
  client_.on_returned(1, second.id.counter);
  EXPECT_EQ(wire_.wanted, 1);
  grant(2);
  EXPECT_EQ(calls_to(2), ids({&second}));
  reply(second);
  reply(slow);
}

TEST_F(TaskClientTest, AWorkerThatMovesOnKeepsItsTasks) {
  warm_up();
  ObjectSlot& first = submit();
  ObjectSlot& second = submit();
  submit();
  wire_.advance(kStall - milliseconds(1));
  reply(first);
  wire_.advance(milliseconds(2));
  reply(second);
  wire_.advance(kStall - milliseconds(1));
  EXPECT_EQ(wire_.sent.back().header.kind, rpc::FrameKind::kCall);
}

TEST_F(TaskClientTest, ATaskThatWasGivenUpIsNeverSentAgain) {
  warm_up();
  ObjectSlot& first = submit();
  ObjectSlot& second = submit();
  table_.fail(second, error_record(ErrorKind::kCancelled, "cancelled"));
  wire_.owners.at(1)->given_up(second.id.counter);
  const uint64_t cancelled = second.id.counter;
  client_.on_returned(1, cancelled);
  reply(first);
  EXPECT_EQ(client_.backlog(), 0u);
  EXPECT_EQ(calls_to(1).size(), 2u);
}

TEST_F(TaskClientTest, TheReplyToATaskThatWasGivenUpFreesItsWorker) {
  warm_up();
  ObjectSlot& first = submit(kOther);
  const uint64_t id = first.id.counter;
  table_.fail(first, error_record(ErrorKind::kTimeout, "late"));
  wire_.owners.at(1)->given_up(id);
  ObjectSlot& second = submit();
  EXPECT_EQ(calls_to(1).size(), 1u);
  client_.on_late_reply(1, id, 7);
  EXPECT_EQ(calls_to(1).back(), second.id.counter);
}

TEST_F(TaskClientTest, ADeathFailsWhatMayHaveBegunAndNothingElse) {
  warm_up();
  ObjectSlot& first = submit();
  ObjectSlot& second = submit();
  ObjectSlot& third = submit();
  ObjectSlot& fourth = submit();
  reply(first);
  end(1);
  EXPECT_TRUE(failed(second));
  EXPECT_FALSE(third.ready() || fourth.ready());
  EXPECT_EQ(wire_.wanted, 2);
  grant(2);
  EXPECT_EQ(calls_to(2), ids({&third, &fourth}));
  reply(third);
  reply(fourth);
}

TEST_F(TaskClientTest, ALostNodeFailsAllSinceItsAnswersMayBeLostToo) {
  warm_up();
  ObjectSlot& first = submit();
  ObjectSlot& second = submit();
  end(1, proto::NODE_LOST);
  EXPECT_TRUE(failed(first));
  EXPECT_TRUE(failed(second));
  EXPECT_EQ(client_.backlog(), 0u);
}

TEST_F(TaskClientTest, SpreadTasksAreNotSentAhead) {
  const TaskOptions spread{.spread = true};
  ObjectSlot& first = submit(kShort, spread);
  grant(1);
  reply(first);
  EXPECT_EQ(wire_.leases_returned, 1);
  submit(kShort, spread);
  submit(kShort, spread);
  grant(2);
  EXPECT_EQ(calls_to(2).size(), 1u);
}

TEST_F(TaskClientTest, NoVerdictIsCutShortByTheEndOfWarmth) {
  warm_up();
  wire_.advance(kWarm / 2);
  ObjectSlot& slot = submit();
  wire_.owners.at(1)->link_lost();
  wire_.advance(kWarm);
  EXPECT_FALSE(slot.ready());  // why the way broke is not known yet
  wire_.advance(std::chrono::seconds(16));
  EXPECT_TRUE(failed(slot));
}

TEST_F(TaskClientTest, ATaskWhoseWorkerDiesRunsAgainBeforeThoseThatWait) {
  const TaskOptions once{.max_retries = 1};
  ObjectSlot& first = submit(kShort, once);
  ObjectSlot& second = submit(kShort, once);
  grant(1);
  end(1);
  EXPECT_FALSE(first.ready());
  EXPECT_EQ(client_.backlog(), 2u);
  grant(2);
  EXPECT_EQ(calls_to(2), ids({&first}));
  reply(first);
  reply(second);
  EXPECT_FALSE(first.error || second.error);
}

TEST_F(TaskClientTest, NotMoreOftenThanItsCallerAllows) {
  ObjectSlot& task = submit(kShort, {.max_retries = 2});
  for (uint64_t worker = 1; worker <= 3; ++worker) {
    EXPECT_FALSE(task.ready());
    grant(worker);
    end(worker);
  }
  ASSERT_TRUE(failed(task));
  EXPECT_NE(task.error->text.find("it was run 3 times"), std::string::npos) << task.error->text;
  EXPECT_TRUE(task.error->death);
  EXPECT_EQ(client_.backlog(), 0u);
}

TEST_F(TaskClientTest, WithoutEndWhereThatIsSaid) {
  ObjectSlot& task = submit(kShort, {.max_retries = -1});
  for (uint64_t worker = 1; worker <= 50; ++worker) {
    grant(worker);
    end(worker);
    ASSERT_FALSE(task.ready());
  }
  grant(51);
  reply(task);
  EXPECT_FALSE(task.error);
}

// What stood behind the one that ran is no run of its own.
TEST_F(TaskClientTest, OnlyWhatMayHaveBegunUsesUpItsRuns) {
  const TaskOptions once{.max_retries = 1};
  ObjectSlot& warm = submit(kShort, once);
  grant(1);
  reply(warm);  // known as short
  wire_.sent.clear();
  ObjectSlot& first = submit(kShort, once);
  ObjectSlot& second = submit(kShort, once);
  end(1);
  grant(2);
  EXPECT_EQ(calls_to(2), ids({&first, &second}));
  end(2);
  EXPECT_TRUE(failed(first));
  EXPECT_FALSE(second.ready());
  grant(3);
  end(3);
  EXPECT_FALSE(second.ready());
  grant(4);
  end(4);
  EXPECT_TRUE(failed(second));
}

// A lost node takes all of its workers along, one message after the other: a task must not use up its runs on them.
TEST_F(TaskClientTest, WhatALostNodeHadRunsOnAnotherOne) {
  std::vector<ObjectSlot*> slots;
  for (int i = 0; i < 4; ++i) slots.push_back(&submit(kShort, {}));
  for (uint64_t worker = 1; worker <= 4; ++worker) grant(worker, 7);
  for (size_t i = 1; i < 4; ++i) reply(*slots[i], 50'000);  // three are idle
  const size_t before = wire_.sent.size();
  for (PeerId peer = 1; peer <= 4; ++peer) end(peer, proto::NODE_LOST);
  EXPECT_EQ(wire_.sent.size(), before);
  EXPECT_FALSE(slots[0]->ready());
  grant(5, 8);
  EXPECT_EQ(calls_to(5), ids({slots[0]}));
  reply(*slots[0]);
}

TEST_F(TaskClientTest, WithoutItsRayletNothingIsRunAgain) {
  ObjectSlot& running = submit(kShort, {.max_retries = -1});
  ObjectSlot& waiting = submit(kShort, {.max_retries = -1});
  grant(1);
  client_.on_failure(error_record(ErrorKind::kUnavailable, "the raylet is gone"));
  ASSERT_TRUE(running.error && waiting.error);
  EXPECT_EQ(running.error->kind, ErrorKind::kUnavailable);
  EXPECT_EQ(client_.backlog(), 0u);
}

// Else a program that tries again waits for ever.
TEST_F(TaskClientTest, WithoutItsRayletWhatIsSubmittedLaterFailsToo) {
  ObjectSlot& first = submit();
  client_.on_failure(error_record(ErrorKind::kUnavailable, "the raylet is gone"));
  ObjectSlot& later = submit();
  ASSERT_TRUE(first.error && later.error);
  EXPECT_EQ(later.error->kind, ErrorKind::kUnavailable);
}

TEST_F(TaskClientTest, AndWhatWaitedForItsArguments) {
  ObjectSlot& argument = table_.mint();
  argument.call = true;
  ObjectSlot& result = submit_with(argument);
  client_.on_failure(error_record(ErrorKind::kUnavailable, "the raylet is gone"));
  EXPECT_FALSE(result.ready());  // the argument may still come, of an actor on another node
  table_.fulfil(argument, {});
  ASSERT_TRUE(result.error);
  EXPECT_EQ(result.error->kind, ErrorKind::kUnavailable);
}

// Else the program's stack overflows.
TEST_F(TaskClientTest, AFailureGoesThroughALongChain) {
  ObjectSlot& first = submit();
  ObjectSlot* last = &first;
  for (int i = 0; i < 200'000; ++i) last = &submit_with(*last);
  table_.fail(first, error_record(ErrorKind::kTask, "the first of them"));
  ASSERT_TRUE(last->error);
  EXPECT_EQ(last->error->text, "the first of them");
}

TEST_F(TaskClientTest, AWorkerEndsAfterSoManyCalls) {
  const TaskOptions twice{.max_calls = 2};
  ObjectSlot& warm = submit(kShort, twice);
  grant(1);
  reply(warm);  // known as short
  for (int i = 0; i < 3; ++i) submit(kShort, twice);
  EXPECT_EQ(calls_to(1).size(), 2u);
  reply(*table_.own(calls_to(1)[1]));
  EXPECT_EQ(wire_.given_back, std::vector{GiveBack::kRetired});
  grant(2);
  EXPECT_EQ(calls_to(2).size(), 2u);
}

}  // namespace
}  // namespace rayo::worker
