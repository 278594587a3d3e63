// If this fails: a driver cannot start actors on its node, a death is not explained to its callers, or
// processes stay behind.
#include <algorithm>

#include "runtime/base/text.h"
#include "runtime/rpc/proto_ids.h"
#include "runtime/rpc/ring.h"
#include "tests/runtime/raylet/node_fixture.h"

namespace rayo::raylet {
namespace {

TEST_F(NodeTest, AnActorComesUpInAForkedWorkerAndItsDeathIsExplained) {
  run([this] {
    connect_driver({"ASAN_OPTIONS=handle_segv=0"});  // where the test has ASan: the signal ends it
    create_actor("Counter");
    // Who creates it has a way to it before it is alive, and need not ask.
    auto link = await([](const proto::ToWorker& message) { return message.has_peer_link(); });
    ASSERT_TRUE(link);
    ASSERT_TRUE(link->message.peer_link().ring());
    ASSERT_EQ(link->fds.size(), 4u);
    auto alive = await_state(proto::ALIVE);
    ASSERT_TRUE(alive);
    pid_t pid = static_cast<pid_t>(alive->pid());
    ASSERT_GT(pid, 0);
    EXPECT_EQ(rpc::from_proto<ProcessId>(link->message.peer_link().peer().process()),
              rpc::from_proto<ProcessId>(alive->address().process()));

    proto::ToRaylet connect;
    *connect.mutable_connect()->mutable_peer() = alive->address();
    driver_->send(20, connect);
    auto again = await([](const proto::ToWorker& message) { return message.has_peer_link(); });
    ASSERT_TRUE(again);
    EXPECT_FALSE(again->message.peer_link().has_failure()) << again->message.peer_link().failure().text();
    EXPECT_FALSE(again->message.peer_link().ring()) << "one way is enough";
    auto ring = rpc::RingMemory::map(std::move(link->fds[0]));
    ASSERT_TRUE(ring.ok());

    base::TimePoint killed = loop_->now();
    ::kill(pid, SIGSEGV);
    auto gone = await([](const proto::ToWorker& message) { return message.has_peer_gone(); });
    auto took = loop_->now() - killed;
    ASSERT_TRUE(gone);
    EXPECT_LT(took, 1s);
    RecordProperty("death_known_us", static_cast<int>(took / 1us));
    EXPECT_TRUE(ring->closed());
    const auto& death = gone->message.peer_gone().death();
    EXPECT_EQ(death.kind(), proto::SIGNAL);
    EXPECT_EQ(death.signal(), SIGSEGV);
    EXPECT_EQ(death.pid(), pid);
    EXPECT_NE(death.text().find("actor Counter"), std::string::npos) << death.text();
    ASSERT_EQ(death.last_log_lines_size(), 1);
    EXPECT_EQ(death.last_log_lines(0), "hosting Counter");
    auto dead = await_state(proto::DEAD);
    ASSERT_TRUE(dead);
    EXPECT_EQ(dead->death().signal(), SIGSEGV);
  });
}

TEST_F(NodeTest, WhatAWorkerPrintsReachesItsDriver) {
  run([this] {
    connect_driver();
    create_actor("Printer");
    auto lines = await([](const proto::ToWorker& message) { return message.has_log_lines(); });
    ASSERT_TRUE(lines);
    EXPECT_EQ(lines->message.log_lines().source(), "Printer");
    ASSERT_EQ(lines->message.log_lines().lines_size(), 1);
    EXPECT_EQ(lines->message.log_lines().lines(0), "hosting Printer");
  });
}

TEST_F(NodeTest, AKilledActorIsDeadOnlyWhenItIsReaped) {
  run([this] {
    connect_driver({"FAKE=exec"});  // no zygote: each worker is exec'd
    auto actor = create_actor("Counter");
    auto alive = await_state(proto::ALIVE);
    ASSERT_TRUE(alive);
    proto::ToRaylet kill_it;
    rpc::to_proto(actor, kill_it.mutable_kill_actor()->mutable_actor());
    driver_->send(30, kill_it);
    auto dead = await_state(proto::DEAD);
    ASSERT_TRUE(dead);
    EXPECT_EQ(dead->death().kind(), proto::KILLED);
    EXPECT_NE(::kill(static_cast<pid_t>(alive->pid()), 0), 0);
  });
}

TEST_F(NodeTest, AnActorStartsBeforeItIsWrittenDown) {
  run([this] {
    connect_driver();
    head_->creations.reset();
    create_actor("Counter");
    auto alive = await_state(proto::ALIVE);
    ASSERT_TRUE(alive);
    EXPECT_GT(alive->pid(), 0);
    auto of_an_actor = [](const proto::NodeUp& up) { return up.has_actor(); };
    EXPECT_TRUE(std::ranges::none_of(head_->up, of_an_actor)) << "the head would end what it does not know";
    head_->creations.set();
    auto told = head_->await(of_an_actor);
    ASSERT_TRUE(told);
    EXPECT_EQ(told->actor().state(), proto::ALIVE);
    EXPECT_EQ(told->actor().pid(), alive->pid());
  });
}

TEST_F(NodeTest, AnActorThatStartedAndIsRefusedEnds) {
  run([this] {
    connect_driver();
    head_->creations.reset();
    head_->refuse = true;
    create_actor("Counter");
    auto alive = await_state(proto::ALIVE);
    ASSERT_TRUE(alive);
    head_->creations.set();
    auto refused = await([](const proto::ToWorker& message) { return message.has_actor_reply(); });
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->message.actor_reply().failure().text(), "refused");
    EXPECT_TRUE(await_gone(static_cast<pid_t>(alive->pid()), 5s));
  });
}

// It could run calls, and then be told that it never was.
TEST_F(NodeTest, NoActorBeginsBeforeAHeadHasAnsweredThatMayRefuseIt) {
  run([this] {
    connect_driver();
    head_->read_only = head_->refuse = true;
    ASSERT_TRUE(head_->await_beats());
    create_actor("Counter");
    auto answer =
        await([](const proto::ToWorker& message) { return message.has_actor_reply() || message.has_actor(); });
    ASSERT_TRUE(answer && answer->message.has_actor_reply());
    EXPECT_EQ(answer->message.actor_reply().failure().text(), "refused");
    EXPECT_FALSE(head_->started);
    head_->read_only = head_->refuse = false;
    ASSERT_TRUE(head_->await_beats());
    create_actor("Counter");
    ASSERT_TRUE(await_state(proto::ALIVE));
    for (auto limit = loop_->deadline(10s); !head_->started && loop_->now() < limit;) base::sleep_for(5ms);
    EXPECT_TRUE(head_->started) << "and as before when there is room again";
  });
}

// It may end itself for good before the head has written it down: nobody would say so again.
TEST_F(NodeTest, AnActorThatIsDeadWhenItIsWrittenDownIsToldSo) {
  run([this] {
    connect_driver();
    head_->creations.reset();
    auto actor = create_actor("Counter");
    ASSERT_TRUE(await_state(proto::ALIVE));
    head_->bury(actor);
    head_->creations.set();
    auto answer = await([](const proto::ToWorker& message) { return message.has_actor_reply(); });
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->message.actor_reply().actor().state(), proto::DEAD);
  });
}

TEST_F(NodeTest, AConstructorThatThrowsIsTold) {
  run([this] {
    connect_driver();
    create_actor("Throws");
    auto dead = await_state(proto::DEAD);
    ASSERT_TRUE(dead);
    EXPECT_EQ(dead->failure().text(), "it threw");
  });
}

TEST_F(NodeTest, AProgramThatNeverReachesInitIsAStartFailureWithItsStderr) {
  run([this] {
    connect_driver({"FAKE=exit"});
    create_actor("Counter");
    auto dead = await_state(proto::DEAD);
    ASSERT_TRUE(dead);
    EXPECT_EQ(dead->failure().death().kind(), proto::START_FAILED);
    EXPECT_EQ(dead->failure().death().exit_code(), 3);
    ASSERT_EQ(dead->failure().death().last_log_lines_size(), 1);
    EXPECT_EQ(dead->failure().death().last_log_lines(0), "no such library");
  });
}

TEST_F(NodeTest, TheEndOfADriverLeavesNoWorker) {
  run([this] {
    connect_driver();
    create_actor("Counter");
    auto alive = await_state(proto::ALIVE);
    ASSERT_TRUE(alive);
    ASSERT_GT(alive->pid(), 0) << "its zygote had not told yet";
    base::run_on_thread(thread_, [&] { driver_.reset(); });
    EXPECT_TRUE(await_gone(static_cast<pid_t>(alive->pid()), 5s));
    auto ended = head_->await([](const proto::NodeUp& up) { return up.has_job() && up.job().ended(); });
    ASSERT_TRUE(ended);
    EXPECT_EQ(ended->job().death().kind(), proto::DRIVER_GONE);
  });
}

// Else `status` shows no driver until something else happens on its node.
TEST_F(NodeTest, ADriverIsCountedWhenItComes) {
  run([this] {
    connect_driver();
    EXPECT_TRUE(
        head_->await([](const proto::NodeUp& up) { return up.has_resources() && up.resources().drivers() == 1; }));
  });
}

}  // namespace
}  // namespace rayo::raylet
