// If this fails: node and head do not agree on handles, watches, jobs and leases, and something ends too early or never.
#include <algorithm>

#include "runtime/base/text.h"
#include "runtime/rpc/proto_ids.h"
#include "tests/runtime/raylet/node_fixture.h"

namespace rayo::raylet {
namespace {

// The head counts its creator as a holder from when it hears of the actor.
TEST_F(NodeTest, AHandleThatIsDroppedBeforeItsActorIsWrittenDownIsToldThen) {
  run([this] {
    connect_driver();
    head_->creations.reset();
    auto actor = create_actor("Counter");
    proto::ToRaylet refs;
    rpc::to_proto(actor, refs.mutable_hold_refs()->add_actors_held());
    driver_->send(0, refs);
    ASSERT_TRUE(await_state(proto::ALIVE));
    refs.Clear();
    rpc::to_proto(actor, refs.mutable_hold_refs()->add_actors_dropped());
    driver_->send(0, refs);
    auto of_handles = [](const proto::NodeUp& up) {
      return up.has_actor_handles() && up.actor_handles().dropped_size();
    };
    ASSERT_TRUE(head_->await(of_handles)) << "told at once, of an actor that the head may not know yet";
    head_->creations.set();
    EXPECT_TRUE(head_->await(of_handles)) << "and again when it does";
  });
}

// Else the dead process watches the actor for as long as the node lives, and the head tells of it for nobody.
TEST_F(NodeTest, WhatAProcessThatHasGoneStillAskedIsNotAsked) {
  run([this] {
    connect_driver();
    head_->creations.reset();
    create_actor("Counter");  // the head takes its time, and what is asked behind it waits
    ASSERT_TRUE(await_state(proto::ALIVE));
    const ActorId watched{4, 4};
    proto::ToRaylet watch;
    rpc::to_proto(watched, watch.mutable_watch_actor()->mutable_actor());
    driver_->send(11, watch);
    const ProcessId gone = driver_->id;
    base::run_on_thread(thread_, [&] { driver_.reset(); });
    ASSERT_TRUE(head_->await([&](const proto::NodeUp& up) {
      return up.has_worker_died() && rpc::from_proto<ProcessId>(up.worker_died().process()) == gone;
    }));
    head_->creations.set();
    connect_driver();
    driver_->send(11, watch);
    ASSERT_TRUE(await([](const proto::ToWorker& message) { return message.has_actor_reply(); }));
    proto::ToRaylet unwatch;
    rpc::to_proto(watched, unwatch.mutable_unwatch_actor()->mutable_actor());
    driver_->send(12, unwatch);
    for (auto limit = loop_->deadline(10s); !head_->unwatched.contains(watched) && loop_->now() < limit;)
      base::sleep_for(5ms);
    EXPECT_TRUE(head_->unwatched.contains(watched)) << "its last watcher has gone";
  });
}

TEST_F(NodeTest, AHandleIsConfirmedWhenTheHeadKnowsOfIt) {
  run([this] {
    connect_driver();
    head_->marks.reset();
    const proto::Id actor = rpc::to_proto(ActorId{4, 4});
    proto::ToRaylet refs;
    *refs.mutable_hold_refs()->add_actors_held() = actor;
    refs.mutable_hold_refs()->set_confirm_actors(true);
    driver_->send(50, refs);
    auto marked = head_->await([](const proto::NodeUp& up) { return up.has_actor_handles() && up.request() != 0; });
    ASSERT_TRUE(marked);
    EXPECT_EQ(marked->actor_handles().held_size(), 1);
    proto::ToRaylet others;
    others.mutable_hold_refs();
    driver_->send(51, others);  // of objects alone
    auto first = await([](const proto::ToWorker& message) { return message.has_done(); });
    ASSERT_TRUE(first);
    EXPECT_EQ(first->call_id, 51u) << "the head has not answered yet";
    head_->marks.set();
    auto second = await([](const proto::ToWorker& message) { return message.has_done(); });
    ASSERT_TRUE(second);
    EXPECT_EQ(second->call_id, 50u);
    driver_->send(52, refs);  // what it knows is confirmed at once
    EXPECT_TRUE(await([](const proto::ToWorker& message) { return message.has_done(); }));
  });
}

// Whoever put it is gone by the time that somebody reads it.
TEST_F(NodeTest, AHandleInsideAValueIsHeldAsLongAsTheValueIsKept) {
  run([this] {
    connect_driver();
    const proto::Id actor = rpc::to_proto(ActorId{4, 4});
    const auto node = rpc::from_proto<NodeId>(head_->registered.node().node());
    const proto::ObjectId object = rpc::to_proto(ObjectId{base::short_id(node), base::short_id(driver_->id), 1});
    proto::ToRaylet message;
    *message.mutable_publish_object()->mutable_object() = object;
    message.mutable_publish_object()->set_value("a value");
    *message.mutable_publish_object()->add_inner_actors() = actor;
    driver_->send(0, message);
    message.Clear();
    *message.mutable_hold_refs()->add_actors_held() = actor;
    driver_->send(0, message);
    message.Clear();
    *message.mutable_hold_refs()->add_actors_dropped() = actor;
    message.mutable_hold_refs()->set_confirm_actors(true);
    driver_->send(50, message);
    ASSERT_TRUE(await([](const proto::ToWorker& answer) { return answer.has_done(); }));
    const auto of_the_end = [](const proto::NodeUp& up) { return up.actor_handles().dropped_size() != 0; };
    EXPECT_TRUE(std::ranges::none_of(head_->up, of_the_end)) << "the head would end it";
    message.Clear();
    *message.mutable_hold_refs()->add_dropped() = object;
    driver_->send(0, message);
    auto dropped = head_->await(of_the_end);
    ASSERT_TRUE(dropped) << "nobody can read the value any more";
    EXPECT_EQ(rpc::from_proto<ActorId>(dropped->actor_handles().dropped(0)), (ActorId{4, 4}));
  });
}

TEST_F(NodeTest, WhoWatchesAgainWhileTheHeadIsToldThatNobodyDoesIsNotForgotten) {
  run([this] {
    connect_driver();
    const ActorId actor{4, 4};
    proto::ToRaylet watch, unwatch;
    rpc::to_proto(actor, watch.mutable_watch_actor()->mutable_actor());
    rpc::to_proto(actor, unwatch.mutable_unwatch_actor()->mutable_actor());
    const auto answered = [](const proto::ToWorker& answer) { return answer.has_actor_reply(); };
    driver_->send(50, watch);
    ASSERT_TRUE(await(answered));
    head_->unwatches.reset();
    driver_->send(51, unwatch);
    ASSERT_TRUE(head_->await_watches(actor, 1)) << "only the first one yet";
    driver_->send(52, watch);
    ASSERT_TRUE(await(answered));
    EXPECT_TRUE(head_->watches(actor));
    head_->unwatches.set();  // it is heard behind the watch that came later
    ASSERT_TRUE(head_->await_watches(actor, 3)) << "nobody says again that it is watched";
    EXPECT_TRUE(head_->watches(actor));
  });
}

// What went into a stream that broke may be lost: the head ends and drops what is not told here.
TEST_F(NodeTest, AStreamThatIsOpenedAgainTellsWhichJobsAndHandlesAreStillHere) {
  run([this] {
    connect_driver();
    proto::ToRaylet refs;
    rpc::to_proto(ActorId{4, 4}, refs.mutable_hold_refs()->add_actors_held());
    driver_->send(0, refs);
    ASSERT_TRUE(head_->await([](const proto::NodeUp& up) { return up.has_actor_handles(); }));
    auto first = head_->await([](const proto::NodeUp& up) { return up.has_job(); });
    ASSERT_TRUE(first);
    auto of_still_here = [](const proto::NodeUp& up) { return up.has_still_here(); };
    head_->forget = true;
    auto told = head_->await(of_still_here);
    ASSERT_TRUE(told);
    ASSERT_EQ(told->still_here().jobs_size(), 1);
    EXPECT_EQ(rpc::from_proto<JobId>(told->still_here().jobs(0)), rpc::from_proto<JobId>(first->job().job()));
    ASSERT_EQ(told->still_here().actors_held_size(), 1);
    EXPECT_EQ(rpc::from_proto<ActorId>(told->still_here().actors_held(0)), (ActorId{4, 4}));
    EXPECT_NE(told->request(), 0u) << "who waits for the head to know of handles waits for this";
    base::run_on_thread(thread_, [&] { driver_.reset(); });
    ASSERT_TRUE(head_->await([](const proto::NodeUp& up) { return up.has_job() && up.job().ended(); }));
    head_->forget = true;
    told = head_->await(of_still_here);
    ASSERT_TRUE(told);
    EXPECT_EQ(told->still_here().jobs_size(), 0);
    EXPECT_EQ(told->still_here().actors_held_size(), 0);
  });
}

TEST_F(NodeTest, ALeaseIsGrantedHereAndItsCpuComesBack) {
  run([this] {
    connect_driver();
    proto::ToRaylet request;
    request.mutable_request_leases()->set_shape(7);
    request.mutable_request_leases()->set_count(1);
    request.mutable_request_leases()->set_what("half");
    (*request.mutable_request_leases()->mutable_demand()->mutable_resources()->mutable_units())["cpu"] = 10'000;
    driver_->send(0, request);
    auto granted = await([](const proto::ToWorker& message) { return message.has_lease_granted(); });
    ASSERT_TRUE(granted);
    const auto& lease = granted->message.lease_granted();
    ASSERT_FALSE(lease.has_failure()) << lease.failure().text();
    EXPECT_EQ(lease.shape(), 7u);
    auto report = [](double cpus) {
      return [cpus](const proto::NodeUp& up) {
        return up.has_resources() && up.resources().free().units().count("cpu") &&
               up.resources().free().units().at("cpu") == cpus * 10'000;
      };
    };
    EXPECT_TRUE(head_->await(report(1)));
    proto::ToRaylet back;
    *back.mutable_return_lease()->mutable_lease() = lease.lease();
    driver_->send(0, back);
    EXPECT_TRUE(head_->await(report(2)));
  });
}

proto::ToRaylet wish_for_a_cpu(uint64_t shape, int count, const std::string& what) {
  proto::ToRaylet message;
  auto& request = *message.mutable_request_leases();
  request.set_shape(shape);
  request.set_count(count);
  request.set_what(what);
  (*request.mutable_demand()->mutable_resources()->mutable_units())["cpu"] = 10'000;
  return message;
}

// The head answers the earlier of two questions with nothing: each asked again at once, and they chased each other at the speed of
// the network for as long as the task waited.
TEST_F(NodeTest, AWishThatIsServedHereAndMadeAgainIsOneQuestion) {
  run([this] {
    connect_driver();
    const auto granted = [](const proto::ToWorker& message) { return message.has_lease_granted(); };
    driver_->send(0, wish_for_a_cpu(1, 2, "holds"));
    auto first = await(granted);
    ASSERT_TRUE(first && await(granted));
    driver_->send(0, wish_for_a_cpu(7, 1, "waits"));
    ASSERT_TRUE(head_->await_questions("waits", 1));
    proto::ToRaylet back;
    *back.mutable_return_lease()->mutable_lease() = first->message.lease_granted().lease();
    driver_->send(0, back);
    auto served = await(granted);
    ASSERT_TRUE(served);
    EXPECT_EQ(served->message.lease_granted().shape(), 7u);
    driver_->send(0, wish_for_a_cpu(7, 1, "waits"));
    ASSERT_TRUE(head_->await_beats());  // some hundred milliseconds
    EXPECT_LE(head_->asked("waits"), 2u);
  });
}

TEST_F(NodeTest, AWishThatIsWithdrawnAndMadeAgainIsOneQuestion) {
  run([this] {
    connect_driver();
    const auto granted = [](const proto::ToWorker& message) { return message.has_lease_granted(); };
    driver_->send(0, wish_for_a_cpu(1, 2, "holds"));
    ASSERT_TRUE(await(granted) && await(granted));
    driver_->send(0, wish_for_a_cpu(7, 1, "waits"));
    ASSERT_TRUE(head_->await_questions("waits", 1));
    driver_->send(0, wish_for_a_cpu(7, 0, "waits"));
    driver_->send(0, wish_for_a_cpu(7, 1, "waits"));
    ASSERT_TRUE(head_->await_questions("waits", 2)) << "it waits again";
    ASSERT_TRUE(head_->await_beats());
    driver_->send(0, wish_for_a_cpu(8, 1, "something else"));  // all that waits is looked at
    ASSERT_TRUE(head_->await_questions("something else", 1));
    ASSERT_TRUE(head_->await_beats());
    EXPECT_EQ(head_->asked("waits"), 2u);
  });
}

proto::NodeDown to_start(const ActorId& actor, uint32_t incarnation, const proto::Id& job, int64_t cpu_units) {
  proto::NodeDown down;
  auto& start = *down.mutable_start_actor();
  rpc::to_proto(actor, start.mutable_spec()->mutable_actor());
  *start.mutable_spec()->mutable_job() = job;
  start.mutable_spec()->set_class_name("Counter");
  (*start.mutable_spec()->mutable_demand()->mutable_resources()->mutable_units())["cpu"] = cpu_units;
  start.set_incarnation(incarnation);
  rpc::to_proto(base::random_id<LeaseId>(), start.mutable_lease());
  return down;
}

// The head took the node for lost and placed it there again: it waited for ever for what its life before held.
TEST_F(NodeTest, AnOlderLifeThatWaitsForItsWorkerGivesBackWhatItHolds) {
  run([this] {
    connect_driver({"FAKE=silent"});  // no worker comes
    auto job = head_->await([](const proto::NodeUp& up) { return up.has_job(); });
    ASSERT_TRUE(job);
    proto::NodeDown first = to_start({4, 4}, 1, job->job().job(), 20'000);
    first.set_request(5);
    head_->send(first);
    ASSERT_TRUE(head_->await(
        [](const proto::NodeUp& up) { return up.has_resources() && up.resources().applied_request() == 5; }));
    const proto::NodeDown second = to_start({4, 4}, 2, job->job().job(), 20'000);
    head_->send(second);
    ASSERT_TRUE(head_->await_beats());
    head_->send(second);  // who is started again tells how it is
    auto told = head_->await([](const proto::NodeUp& up) { return up.has_actor() && up.actor().incarnation() == 2; });
    ASSERT_TRUE(told);
    EXPECT_EQ(told->actor().state(), proto::STARTING);
  });
}

proto::NodeDown to_grant(const proto::Id& job, const ProcessId& requester, const proto::Id& from_node) {
  proto::NodeDown down;
  down.set_request(77);
  auto& grant = *down.mutable_grant();
  (*grant.mutable_demand()->mutable_resources()->mutable_units())["cpu"] = 10'000;
  grant.set_count(1);
  *grant.mutable_job() = job;
  *grant.mutable_requester() = rpc::to_proto(requester);
  *grant.mutable_from_node() = from_node;
  return down;
}

// It is the emptiest of all, and failed whatever the head sent there: tasks of drivers on healthy nodes, actors for good.
TEST_F(NodeTest, ANodeThatCannotStartWorkersSendsWorkBack) {
  run([this] {
    const base::Path workers = settings_.node_dir / "workers";  // where their output goes
    std::filesystem::remove_all(workers);
    ASSERT_TRUE(base::write_private_file(workers, "").ok());
    connect_driver();
    auto job = head_->await([](const proto::NodeUp& up) { return up.has_job(); });
    ASSERT_TRUE(job);
    head_->send(to_start({4, 4}, 1, job->job().job(), 10'000));
    auto told = head_->await([](const proto::NodeUp& up) { return up.has_actor(); });
    ASSERT_TRUE(told);
    EXPECT_EQ(told->actor().state(), proto::PENDING) << told->actor().failure().text();
    ASSERT_EQ(told->actor().reasons_size(), 1);
    EXPECT_EQ(told->actor().reasons(0).code(), "worker_start");
    EXPECT_NE(told->actor().reasons(0).text().find("cannot write"), std::string::npos);

    head_->send(to_grant(job->job().job(), driver_->id, head_->registered.node().node()));
    auto reply = head_->await([](const proto::NodeUp& up) { return up.has_grant_reply(); });
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->grant_reply().leases_size(), 0);
    ASSERT_EQ(reply->grant_reply().reasons_size(), 1);
    EXPECT_EQ(reply->grant_reply().reasons(0).code(), "worker_start");

    driver_->send(0, wish_for_a_cpu(7, 1, "waits"));
    EXPECT_TRUE(head_->await_questions("waits", 1)) << "its own driver's goes elsewhere too";
  });
}

// The head heard of its free CPUs while its processes ended, and sent it what waited: all of that failed.
TEST_F(NodeTest, ANodeThatStopsSendsWorkBack) {
  run([this] {
    connect_driver({"FAKE=silent"});  // which does not end when it is told
    auto job = head_->await([](const proto::NodeUp& up) { return up.has_job(); });
    ASSERT_TRUE(job);
    head_->send(to_start({4, 4}, 1, job->job().job(), 10'000));
    head_->send(to_grant(job->job().job(), driver_->id, head_->registered.node().node()));
    ASSERT_TRUE(head_->await(
        [](const proto::NodeUp& up) { return up.has_resources() && up.resources().applied_request() == 77; }));
    base::TaskGroup stopping;
    stopping.spawn("stop", [this] {
      node_->ask_to_stop("the test stops it");
      node_->close();
    });
    auto told = head_->await([](const proto::NodeUp& up) { return up.has_actor(); });
    ASSERT_TRUE(told);
    EXPECT_EQ(told->actor().state(), proto::PENDING) << told->actor().failure().text();
    auto reply = head_->await([](const proto::NodeUp& up) { return up.has_grant_reply(); });
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->grant_reply().leases_size(), 0);
    stopping.join();
    node_.reset();
  });
}

// The answer of the head to a driver's ask may be lost, with its stream or because the ask was withdrawn: that CPU was gone until
// the driver's end.
TEST_F(NodeTest, ALeaseOfThisNodesOwnThatNobodyHeardOfIsEnded) {
  config_["leases.confirm_each"] = "300ms";
  run([this] {
    connect_driver();
    auto job = head_->await([](const proto::NodeUp& up) { return up.has_job(); });
    ASSERT_TRUE(job);
    head_->send(to_grant(job->job().job(), driver_->id, head_->registered.node().node()));
    auto granted = head_->await([](const proto::NodeUp& up) { return up.has_grant_reply(); });
    ASSERT_TRUE(granted);
    ASSERT_EQ(granted->grant_reply().leases_size(), 1);
    ASSERT_FALSE(granted->grant_reply().leases(0).has_failure());
    EXPECT_TRUE(head_->await([](const proto::NodeUp& up) {
      return up.has_resources() && up.resources().applied_request() == 77 &&
             up.resources().free().units().at("cpu") == 20'000;
    }));
  });
}

// Else its first lines are of nobody known, until the function itself has told.
TEST_F(NodeTest, WhatAWorkerOfAnotherNodesTaskPrintsHasTheTasksName) {
  run([this] {
    connect_driver();
    auto job = head_->await([](const proto::NodeUp& up) { return up.has_job(); });
    ASSERT_TRUE(job);
    proto::NodeDown down;
    auto& grant = *down.mutable_grant();
    (*grant.mutable_demand()->mutable_resources()->mutable_units())["cpu"] = 10'000;
    grant.set_count(1);
    *grant.mutable_job() = job->job().job();
    *grant.mutable_requester() = rpc::to_proto(driver_->id);
    *grant.mutable_from_node() = rpc::to_proto(NodeId{8, 8});
    grant.set_what("half");
    head_->send(down);
    auto lines = await([](const proto::ToWorker& message) { return message.has_log_lines(); });
    ASSERT_TRUE(lines);
    EXPECT_EQ(lines->message.log_lines().source(), "half");
    EXPECT_EQ(lines->message.log_lines().lines(0), "hosting tasks");
  });
}

// The lease is granted and ended before the fiber that looks for its worker has had a turn: that fiber once took the raylet along.
TEST_F(NodeTest, ADriverThatAsksForALeaseAndGoesEndsNoRaylet) {
  run([this] {
    for (int i = 0; i < 20; ++i) {
      connect_driver();
      proto::ToRaylet request;
      request.mutable_request_leases()->set_shape(7);
      request.mutable_request_leases()->set_count(1);
      (*request.mutable_request_leases()->mutable_demand()->mutable_resources()->mutable_units())["cpu"] = 10'000;
      driver_->send(0, request);
      base::run_on_thread(thread_, [&] { driver_.reset(); });
    }
    connect_driver();
    create_actor("Counter");
    EXPECT_TRUE(await_state(proto::ALIVE));
  });
}

}  // namespace
}  // namespace rayo::raylet
