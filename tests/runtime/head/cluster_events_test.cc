// What a user loses if these fail: an actor that waits for ever without a word, a task that is never placed,
// or the remains of a driver that is gone.
#include <gtest/gtest.h>

#include "runtime/head/actor_requests.h"
#include "runtime/head/node_events.h"
#include "runtime/head/views.h"
#include "runtime/rpc/own_job.h"
#include "runtime/rpc/proto_demand.h"
#include "tests/testkit/manual_clock.h"

namespace rayo::head {
namespace {

using base::Amount;
using base::Resources;

const JobId kJob{9, 9};

struct ClusterEvents : ::testing::Test {
  testkit::ManualClock clock;
  ClusterState state{clock};
  Placer placer{state};
  NodeEvents nodes{state, placer};
  ActorRequests actors{state, placer};
  Outcome out;

  static NodeId id(uint64_t n) { return {n, n}; }

  proto::Registered attach(uint64_t n, Resources total, std::map<std::string, std::string> labels = {}) {
    proto::Register registering;
    auto* node = registering.mutable_node();
    rpc::to_proto(id(n), node->mutable_node());
    node->set_hostname("host" + std::to_string(n));
    for (const auto& [key, value] : labels) (*node->mutable_labels())[key] = value;
    for (int i = 0; i < total.get("gpu").units / Amount::kScale; ++i) {
      auto* device = node->add_devices();
      device->set_uuid("GPU-" + std::to_string(n) + "-" + std::to_string(i));
      device->set_free_units(Amount::kScale);
    }
    *node->mutable_total() = rpc::to_proto(total);
    *node->mutable_free() = node->total();
    registering.set_incarnation(1);
    return nodes.attach(registering, out);
  }
  void start_job(uint64_t on) {
    proto::NodeUp up;
    rpc::to_proto(kJob, up.mutable_job()->mutable_job());
    nodes.message(id(on), up, out);
  }
  ActorId create(uint64_t n, Resources resources, int64_t timeout_ms = 60'000, const std::string& name = "") {
    auto request = to_create({n, n});
    auto* spec = request.mutable_create_actor()->mutable_spec();
    spec->set_name(name);
    *spec->mutable_demand()->mutable_resources() = rpc::to_proto(resources);
    spec->mutable_demand()->set_schedule_timeout_ms(timeout_ms);
    EXPECT_EQ(actors.create(id(1), request, out).outcome, ActorDirectory::Creation::kNew);
    actors.admit({n, n}, out);
    return {n, n};
  }
  static proto::RelayRequest to_create(ActorId actor, JobId job = kJob) {
    proto::RelayRequest request;
    auto* spec = request.mutable_create_actor()->mutable_spec();
    rpc::to_proto(actor, spec->mutable_actor());
    rpc::to_proto(job, spec->mutable_job());
    spec->set_class_name("Counter");
    return request;
  }
  proto::ActorState state_of(ActorId actor) { return state.actors.find(actor)->info.state(); }
  void say(uint64_t from, ActorId actor, proto::ActorState said) {
    proto::NodeUp up;
    *up.mutable_actor() = state.actors.find(actor)->info;
    up.mutable_actor()->set_state(said);
    rpc::to_proto(id(from), up.mutable_actor()->mutable_address()->mutable_node());
    nodes.message(id(from), up, out);
  }
  void beat(uint64_t n) {
    proto::BeatRequest request;
    rpc::to_proto(id(n), request.mutable_node());
    request.set_incarnation(1);
    nodes.beat(request, out);
  }
  void pass(base::Duration span, std::vector<uint64_t> beating = {1, 2}) {
    for (base::Duration gone{}; gone < span; gone += kTick) {
      clock.advance(kTick);
      for (auto n : beating) beat(n);
      nodes.tick(out);
    }
  }
  template <class F>
  std::vector<proto::NodeDown> sent(NodeId to, F has) {
    std::vector<proto::NodeDown> found;
    for (const auto& send : out.sends) {
      if (send.to == to && (send.message.*has)()) found.push_back(send.message);
    }
    return found;
  }
};

TEST_F(ClusterEvents, ADetachedActorLivesInAJobOfItsOwnThatEndsWithIt) {
  attach(1, {{"cpu", Amount::of(4)}});
  start_job(1);
  const JobId own = rpc::own_job_of({1, 1});
  auto request = to_create({1, 1}, own);
  auto* spec = request.mutable_create_actor()->mutable_spec();
  spec->set_name("keeper");
  spec->set_class_name("Keeper");
  spec->set_detached(true);
  EXPECT_EQ(actors.create(id(1), request, out).outcome, ActorDirectory::Creation::kRefused) << "no job to live in";
  auto in_anothers = request;
  rpc::to_proto(kJob, in_anothers.mutable_create_actor()->mutable_spec()->mutable_job());
  rpc::to_proto(kJob, in_anothers.mutable_own_job()->mutable_job());
  EXPECT_EQ(actors.create(id(1), in_anothers, out).outcome, ActorDirectory::Creation::kRefused)
      << "which would end with the actor";
  rpc::to_proto(own, request.mutable_own_job()->mutable_job());
  request.mutable_own_job()->set_program("/bin/keeper");
  ASSERT_EQ(actors.create(id(1), request, out).outcome, ActorDirectory::Creation::kNew);
  actors.admit({1, 1}, out);
  ASSERT_EQ(sent(id(1), &proto::NodeDown::has_start_actor).size(), 1u);
  say(1, {1, 1}, proto::ALIVE);
  // What it makes itself belongs to its job.
  ASSERT_EQ(actors.create(id(1), to_create({2, 2}, own), out).outcome, ActorDirectory::Creation::kNew);
  actors.admit({2, 2}, out);
  proto::NodeUp up;
  rpc::to_proto(kJob, up.mutable_job()->mutable_job());
  up.mutable_job()->set_ended(true);
  nodes.message(id(1), up, out);  // its maker's driver ends
  EXPECT_EQ(state_of({1, 1}), proto::ALIVE);
  EXPECT_EQ(state.jobs.find(own)->state(), "running");
  out = {};
  proto::KillActor kill;
  rpc::to_proto(ActorId{1, 1}, kill.mutable_actor());
  actors.kill(kill, out);
  EXPECT_EQ(state_of({1, 1}), proto::DEAD);
  EXPECT_EQ(state_of({2, 2}), proto::DEAD);
  EXPECT_EQ(state.jobs.find(own)->state(), "ended");
  EXPECT_EQ(sent(NodeId{}, &proto::NodeDown::has_job).size(), 1u) << "every node lets go of the job";
}

// Else a node could end the calls to another's processes: raylets compare.
TEST_F(ClusterEvents, TheDeathOfAProcessIsToldUnderTheNameOfWhoSaysSo) {
  attach(1, {{"cpu", Amount::of(1)}});
  attach(2, {{"cpu", Amount::of(1)}});
  proto::NodeUp up;
  rpc::to_proto(ProcessId{5, 5}, up.mutable_worker_died()->mutable_process());
  rpc::to_proto(id(1), up.mutable_worker_died()->mutable_node());
  rpc::to_proto(id(1), up.mutable_worker_died()->mutable_death()->mutable_node());
  out = {};
  nodes.message(id(2), up, out);
  auto told = sent(NodeId{}, &proto::NodeDown::has_worker_died);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(rpc::from_proto<NodeId>(told[0].worker_died().node()), id(2));
  EXPECT_EQ(rpc::from_proto<NodeId>(told[0].worker_died().death().node()), id(2));
}

TEST_F(ClusterEvents, AMarkBehindHandlesIsSentBackToWhoToldThem) {
  attach(1, {{"cpu", Amount::of(4)}});
  attach(2, {{"cpu", Amount::of(4)}});
  out = {};
  proto::NodeUp up;
  rpc::to_proto(ActorId{5, 5}, up.mutable_actor_handles()->add_held());
  nodes.message(id(2), up, out);
  EXPECT_TRUE(out.sends.empty()) << "nobody has asked";
  up.set_request(7);
  nodes.message(id(2), up, out);
  ASSERT_EQ(out.sends.size(), 1u);
  EXPECT_EQ(out.sends[0].to, id(2));
  EXPECT_EQ(out.sends[0].message.request(), 7u);
  EXPECT_EQ(out.sends[0].message.message_case(), proto::NodeDown::MESSAGE_NOT_SET);
}

TEST_F(ClusterEvents, WhyAndTheEventsTellOfRestarts) {
  attach(1, {{"cpu", Amount::of(4)}});
  start_job(1);
  auto request = to_create({1, 1});
  request.mutable_create_actor()->mutable_spec()->set_max_restarts(2);
  ASSERT_EQ(actors.create(id(1), request, out).outcome, ActorDirectory::Creation::kNew);
  actors.admit({1, 1}, out);
  const std::string key = ActorId{1, 1}.hex();
  auto die = [&] {
    say(1, {1, 1}, proto::ALIVE);
    proto::NodeUp up;
    *up.mutable_actor() = state.actors.find({1, 1})->info;
    up.mutable_actor()->set_state(proto::DEAD);
    *up.mutable_actor()->mutable_death() = death_record(proto::SIGNAL, id(1), "signal 11", state.now_us());
    nodes.message(id(1), up, out);
  };
  die();
  EXPECT_EQ(state_of({1, 1}), proto::STARTING) << "the first restart is at once";
  die();
  auto why = why_of(state, key);
  EXPECT_EQ(why.state(), "restarting");
  EXPECT_NE(why.text().find("is started again in 1.0 s; restarted 2 of 2 times; its life before ended: signal 11"),
            std::string::npos)
      << why.text();
  EXPECT_EQ(why.death().text(), "signal 11");
  const auto& told = state.events.events().back();
  EXPECT_EQ(told.severity(), "warning");
  EXPECT_NE(told.text().find("died: signal 11; it is started again in 1.0 s"), std::string::npos) << told.text();
  pass(std::chrono::seconds(1), {1});
  ASSERT_EQ(state_of({1, 1}), proto::STARTING);
  die();
  why = why_of(state, key);
  EXPECT_EQ(why.state(), "dead");
  EXPECT_NE(why.text().find("restarted 2 of 2 times"), std::string::npos) << why.text();
  EXPECT_EQ(state.events.events().back().severity(), "error");
}

TEST_F(ClusterEvents, ActorsThatSpreadGoToEachNodeInTurn) {
  attach(1, {{"cpu", Amount::of(2)}});
  attach(2, {{"cpu", Amount::of(64)}});
  attach(3, {{"cpu", Amount::of(8)}});
  std::map<NodeId, int> count;
  for (uint64_t n = 1; n <= 6; ++n) {
    auto request = to_create({n, n});
    auto* demand = request.mutable_create_actor()->mutable_spec()->mutable_demand();
    (*demand->mutable_resources()->mutable_units())["cpu"] = 1000;
    demand->set_spread(true);
    ASSERT_EQ(actors.create(id(1), request, out).outcome, ActorDirectory::Creation::kNew);
    actors.admit({n, n}, out);
    ++count[state.actors.find({n, n})->node];
  }
  EXPECT_EQ(count, (std::map<NodeId, int>{{id(1), 2}, {id(2), 2}, {id(3), 2}})) << "the largest node took them";
}

TEST_F(ClusterEvents, AnActorThatStartedOnItsCreatorsNodeIsTakenAsItIs) {
  attach(1, {{"cpu", Amount::of(2)}});
  attach(2, {{"cpu", Amount::of(2)}});
  start_job(1);
  auto request = to_create({1, 1});
  auto* demand = request.mutable_create_actor()->mutable_spec()->mutable_demand();
  *demand->mutable_to_place() = rpc::to_proto(Resources{{"cpu", Amount::of(1)}});
  request.set_started(true);
  ASSERT_EQ(actors.create(id(1), request, out).outcome, ActorDirectory::Creation::kNew);
  EXPECT_EQ(state_of({1, 1}), proto::STARTING);
  actors.admit({1, 1}, out);
  actors.admit({1, 1}, out);
  EXPECT_TRUE(sent(id(1), &proto::NodeDown::has_start_actor).empty());
  EXPECT_TRUE(sent(id(1), &proto::NodeDown::has_end_actor).empty());
  say(1, {1, 1}, proto::ALIVE);
  EXPECT_EQ(state_of({1, 1}), proto::ALIVE);
  // It weighs there as if it had been placed: the next one does not fit into the packed half.
  auto next = to_create({2, 2});
  *next.mutable_create_actor()->mutable_spec()->mutable_demand() = *demand;
  ASSERT_EQ(actors.create(id(1), next, out).outcome, ActorDirectory::Creation::kNew);
  actors.admit({2, 2}, out);
  EXPECT_EQ(state.actors.find({2, 2})->node, id(2));
}

TEST_F(ClusterEvents, AnActorWhoseNodeIsLostBeforeItIsWrittenDownIsNotPlacedAgain) {
  attach(1, {{"cpu", Amount::of(2)}});
  attach(2, {{"cpu", Amount::of(2)}});
  start_job(2);
  auto request = to_create({1, 1});
  request.set_started(true);
  ASSERT_EQ(actors.create(id(1), request, out).outcome, ActorDirectory::Creation::kNew);
  pass(std::chrono::seconds(12), {2});
  actors.admit({1, 1}, out);
  EXPECT_EQ(state_of({1, 1}), proto::DEAD) << "its only handle was there";
  EXPECT_TRUE(sent(id(2), &proto::NodeDown::has_start_actor).empty());
}

TEST_F(ClusterEvents, AnActorIsStartedWhereItFitsAndItsWatchersAreTold) {
  attach(1, {{"cpu", Amount::of(1)}});
  attach(2, {{"cpu", Amount::of(8)}});
  auto actor = create(1, {{"cpu", Amount::of(4)}});
  auto starts = sent(id(2), &proto::NodeDown::has_start_actor);
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_GT(starts[0].request(), 0u);
  EXPECT_EQ(starts[0].start_actor().incarnation(), 1u);
  proto::WatchActor watch;
  rpc::to_proto(actor, watch.mutable_actor());
  EXPECT_EQ(actors.watch(id(1), watch).actor().state(), proto::STARTING);
  say(2, actor, proto::ALIVE);
  auto told = sent(id(1), &proto::NodeDown::has_actor);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].actor().state(), proto::ALIVE);
}

TEST_F(ClusterEvents, WhatNobodyCouldEverHoldIsToldAfterASecondAndGivenUpAtItsTimeout) {
  attach(1, {{"cpu", Amount::of(8)}});
  start_job(1);
  auto actor = create(1, {{"gpu", Amount::of(3)}}, 2000);
  EXPECT_EQ(state_of(actor), proto::PENDING);
  pass(900ms);
  EXPECT_TRUE(sent(id(1), &proto::NodeDown::has_notice).empty());
  pass(200ms);
  auto notices = sent(id(1), &proto::NodeDown::has_notice);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].notice().notice().text().find("3 GPU do not fit: the node has no GPU"), std::string::npos)
      << notices[0].notice().notice().text();
  pass(1s);
  EXPECT_EQ(state_of(actor), proto::DEAD);
  const auto& why = state.actors.find(actor)->info.failure();
  EXPECT_EQ(why.kind(), proto::UNSCHEDULABLE);
  EXPECT_NE(why.text().find("insufficient_gpu"), std::string::npos);
}

TEST_F(ClusterEvents, WhatIsBoundToANodeThatNobodyKnowsDoesNotWait) {
  attach(1, {{"cpu", Amount::of(4)}});
  attach(2, {{"cpu", Amount::of(4)}});
  start_job(1);
  proto::Demand demand;
  auto refused = [&](uint64_t node) {
    rpc::to_proto(id(node), demand.mutable_node());
    return placer.refusal(demand, "task half").has_value();
  };
  EXPECT_FALSE(refused(2));
  EXPECT_TRUE(refused(3));
  auto request = to_create({1, 1});
  *request.mutable_create_actor()->mutable_spec()->mutable_demand() = demand;
  auto created = actors.create(id(1), request, out);
  EXPECT_EQ(created.outcome, ActorDirectory::Creation::kRefused);
  EXPECT_EQ(created.failure.kind(), proto::UNSCHEDULABLE);
  demand.set_node_soft(true);
  EXPECT_FALSE(refused(3)) << "another one will do";
  demand.set_node_soft(false);
  pass(20s, {1});
  ASSERT_FALSE(state.nodes.find(id(2)));
  EXPECT_FALSE(refused(2)) << "a node that was cut off may come back";
}

TEST_F(ClusterEvents, WhatWillFitOneDayWaitsWithoutLimitButWithAReason) {
  attach(1, {{"cpu", Amount::of(2)}});
  create(1, {{"cpu", Amount::of(2)}});
  auto second = create(2, {{"cpu", Amount::of(2)}}, 1000);
  pass(5s);
  EXPECT_EQ(state_of(second), proto::PENDING);
  auto status = status_of(state);
  ASSERT_EQ(status.pending_size(), 1);
  EXPECT_EQ(status.pending(0).reasons(0).text(), "2 CPU does not fit: 0 of 2 free");
  EXPECT_EQ(status.pending(0).examples(0), second.hex());
  auto why = why_of(state, second.hex().substr(0, 20));
  EXPECT_EQ(why.kind(), "actor");
  EXPECT_EQ(why.reasons(0).code(), "insufficient_cpu");
}

TEST_F(ClusterEvents, TwoNodesOfTwoGpusTakeFourActorsOfSixTenths) {
  for (uint64_t n : {1, 2}) attach(n, {{"cpu", Amount::of(8)}, {"gpu", Amount::of(2)}});
  for (uint64_t n = 1; n <= 5; ++n) create(n, {{"gpu", Amount::of(0.6)}});
  EXPECT_EQ(state.actors.counts().starting, 4);
  EXPECT_EQ(state.actors.counts().pending, 1);
  EXPECT_EQ(status_of(state).pending(0).reasons(0).text(), "0.6 GPU does not fit: free per device = 0.4, 0.4");
}

TEST_F(ClusterEvents, ARefusedStartGoesToAnotherNode) {
  attach(1, {{"cpu", Amount::of(4)}});
  attach(2, {{"cpu", Amount::of(4)}});
  auto actor = create(1, {{"cpu", Amount::of(1)}});
  uint64_t first = state.actors.find(actor)->node.low;
  say(first, actor, proto::PENDING);
  EXPECT_EQ(state_of(actor), proto::STARTING);
  EXPECT_NE(state.actors.find(actor)->node.low, first);
}

TEST_F(ClusterEvents, ANodeThatDiesTakesItsActorsAndItsDriversJobs) {
  attach(1, {{"cpu", Amount::of(4)}});
  attach(2, {{"cpu", Amount::of(4)}});
  start_job(2);
  auto actor = create(1, {{"cpu", Amount::of(1)}});
  pass(11s, {1});
  EXPECT_FALSE(state.nodes.find(id(2)));
  EXPECT_EQ(state_of(actor), proto::DEAD);
  EXPECT_TRUE(state.jobs.ended(kJob));
  auto told = sent({}, &proto::NodeDown::has_node);
  EXPECT_EQ(told.back().node().state(), "dead");
  EXPECT_EQ(told.back().node().death().kind(), proto::NODE_LOST);
  auto jobs = sent({}, &proto::NodeDown::has_job);
  EXPECT_EQ(jobs.back().job().state(), "ended");
  EXPECT_EQ(why_of(state, id(2).hex()).state(), "dead");
}

// `status` must not show workers, drivers or free CPUs of a machine that is gone.
TEST_F(ClusterEvents, OnADeadNodeNobodyRunsAndNothingIsFree) {
  attach(1, {{"cpu", Amount::of(4)}});
  attach(2, {{"cpu", Amount::of(4)}});
  proto::NodeUp up;
  auto& report = *up.mutable_resources();
  *report.mutable_total() = *report.mutable_free() = rpc::to_proto(Resources{{"cpu", Amount::of(4)}});
  report.set_workers(3);
  report.set_drivers(1);
  report.set_object_store_used_bytes(1000);
  nodes.message(id(2), up, out);
  EXPECT_NE(why_of(state, id(2).hex()).text().find("3 workers and 1 drivers"), std::string::npos);
  pass(11s, {1});
  const auto status = status_of(state);
  const proto::NodeInfo told = sent({}, &proto::NodeDown::has_node).back().node();
  for (const auto* node : {&status.nodes(1), &told}) {
    EXPECT_EQ(node->state(), "dead");
    EXPECT_EQ(node->workers() + node->drivers() + node->object_store_used_bytes(), 0);
    EXPECT_TRUE(node->free().units().empty());
    EXPECT_EQ(node->death().kind(), proto::NODE_LOST);
  }
}

TEST_F(ClusterEvents, WhyOfAProcessSaysWhatItDoesOrHowItEnded) {
  attach(1, {{"cpu", Amount::of(4)}});
  proto::WorkerInfo worker;
  worker.set_kind("worker");
  worker.set_state("actor");
  worker.set_pid(42);
  worker.set_what("actor Counter");
  rpc::to_proto(id(1), worker.mutable_node());
  rpc::to_proto(ActorId{7, 7}, worker.mutable_actor());
  rpc::to_proto(kJob, worker.mutable_job());
  worker.set_started_at_unix_us(state.now_us());
  clock.advance(90s);
  auto why = why_process(state, worker);
  EXPECT_EQ(why.kind(), "worker");
  EXPECT_NE(why.text().find("pid 42 on host1"), std::string::npos) << why.text();
  EXPECT_NE(why.text().find("actor Counter (00000000)"), std::string::npos) << why.text();
  *worker.mutable_death() = death_record(proto::SIGNAL, id(1), "signal 9", state.now_us());
  why = why_process(state, worker);
  EXPECT_EQ(why.death().kind(), proto::SIGNAL);
  EXPECT_NE(why.text().find("signal 9"), std::string::npos) << why.text();
}

TEST_F(ClusterEvents, ADriversEndLeavesNoActorAndNoAsk) {
  attach(1, {{"cpu", Amount::of(4)}});
  start_job(1);
  auto running = create(1, {{"cpu", Amount::of(4)}}, 60'000, "hits");
  auto waiting = create(2, {{"cpu", Amount::of(4)}});
  say(1, running, proto::ALIVE);
  proto::PlaceLeasesRequest ask;
  rpc::to_proto(kJob, ask.mutable_job());
  *ask.mutable_demand()->mutable_resources() = rpc::to_proto(Resources{{"cpu", Amount::of(4)}});
  placer.ask_leases(ask, out);
  proto::NodeUp up;
  rpc::to_proto(kJob, up.mutable_job()->mutable_job());
  up.mutable_job()->set_ended(true);
  for (int twice = 0; twice < 2; ++twice) nodes.message(id(1), up, out);
  EXPECT_EQ(state_of(running), proto::DEAD);
  EXPECT_EQ(state_of(waiting), proto::DEAD);
  EXPECT_EQ(state.actors.find(running)->info.death().kind(), proto::DRIVER_GONE);
  EXPECT_EQ(sent(id(1), &proto::NodeDown::has_end_actor).size(), 1u);
  EXPECT_TRUE(state.queue.empty());
  ASSERT_EQ(out.answers.size(), 1u);
  EXPECT_TRUE(out.answers[0].reply.has_failure());
  EXPECT_FALSE(state.actors.named("", "hits"));
}

proto::PlaceLeasesRequest ask_for(int count, double cpus) {
  proto::PlaceLeasesRequest ask;
  rpc::to_proto(NodeId{1, 1}, ask.mutable_node());
  rpc::to_proto(ProcessId{7, 7}, ask.mutable_process());
  *ask.mutable_demand()->mutable_resources() = rpc::to_proto(Resources{{"cpu", Amount::of(cpus)}});
  ask.set_count(count);
  ask.set_what("half");
  return ask;
}

TEST_F(ClusterEvents, AJobIsEndedByTheNodeOfItsDriverAlone) {
  attach(1, {{"cpu", Amount::of(4)}});
  attach(2, {{"cpu", Amount::of(4)}});
  start_job(1);
  proto::NodeUp up;
  rpc::to_proto(kJob, up.mutable_job()->mutable_job());
  up.mutable_job()->set_ended(true);
  nodes.message(id(2), up, out);
  EXPECT_FALSE(state.jobs.ended(kJob));
  nodes.message(id(1), up, out);
  EXPECT_TRUE(state.jobs.ended(kJob));
}

// A C++ program that a Python script opened: on whatever node that was, it is the script's driver's and ends with it.
TEST_F(ClusterEvents, AnotherProgramsJobHasTheDriverOfItsParentAndEndsWithIt) {
  attach(1, {{"cpu", Amount::of(4)}});
  attach(2, {{"cpu", Amount::of(4)}});
  const JobId program = rpc::job_of_program(kJob, PackageId{3, 4});
  proto::NodeUp opened;
  rpc::to_proto(program, opened.mutable_job()->mutable_job());
  rpc::to_proto(kJob, opened.mutable_job()->mutable_parent());
  nodes.message(id(2), opened, out);
  EXPECT_EQ(state.jobs.find(program), nullptr) << "nobody knows its parent";
  start_job(1);
  nodes.message(id(2), opened, out);
  nodes.message(id(1), opened, out);  // asked twice
  ASSERT_NE(state.jobs.find(program), nullptr);
  EXPECT_EQ(rpc::from_proto<NodeId>(state.jobs.find(program)->node()), id(1));

  EXPECT_EQ(actors.create(id(2), to_create({1, 1}, program), out).outcome, ActorDirectory::Creation::kNew);
  actors.admit({1, 1}, out);
  proto::NodeUp ended;
  rpc::to_proto(kJob, ended.mutable_job()->mutable_job());
  ended.mutable_job()->set_ended(true);
  nodes.message(id(1), ended, out);
  EXPECT_TRUE(state.jobs.ended(program));
  EXPECT_EQ(state_of({1, 1}), proto::DEAD);
  nodes.message(id(2), opened, out);
  EXPECT_TRUE(state.jobs.ended(program)) << "late news begin nothing";
}

TEST_F(ClusterEvents, LeasesAreGrantedByTheNodeThatHasRoom) {
  attach(1, {{"cpu", Amount::of(1)}});
  attach(2, {{"cpu", Amount::of(6)}});
  auto ticket = placer.ask_leases(ask_for(10, 2), out);
  auto grants = sent(id(2), &proto::NodeDown::has_grant);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].grant().count(), 3);
  EXPECT_EQ(grants[0].grant().what(), "half") << "what its workers print is told under that name";
  proto::NodeUp up;
  up.set_request(grants[0].request());
  for (uint64_t n = 1; n <= 3; ++n)
    rpc::to_proto(LeaseId{n, n}, up.mutable_grant_reply()->add_leases()->mutable_lease());
  nodes.message(id(2), up, out);
  ASSERT_EQ(out.answers.size(), 1u);
  EXPECT_EQ(out.answers[0].ticket, ticket);
  EXPECT_EQ(out.answers[0].reply.leases_size(), 3);
  nodes.message(id(2), up, out);  // twice: nobody waits for these any more, and they go back
  EXPECT_EQ(out.answers.size(), 1u);
  EXPECT_EQ(sent(id(2), &proto::NodeDown::has_end_lease).size(), 3u);
}

// A driver asks for what it has waiting, and of demands that hold nothing a node has room for any number.
TEST_F(ClusterEvents, NoGrantIsForMoreLeasesThanANodeTakes) {
  attach(1, {{"cpu", Amount::of(1)}});
  placer.ask_leases(ask_for(std::numeric_limits<int>::max(), 0), out);
  auto grants = sent(id(1), &proto::NodeDown::has_grant);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].grant().count(), 1000);
}

TEST_F(ClusterEvents, AnEmptyGrantIsAskedOfAnotherNode) {
  attach(1, {{"cpu", Amount::of(2)}});
  attach(2, {{"cpu", Amount::of(2)}});
  placer.ask_leases(ask_for(1, 2), out);
  NodeId first = sent(id(1), &proto::NodeDown::has_grant).empty() ? id(2) : id(1);
  proto::NodeUp up;
  up.set_request(sent(first, &proto::NodeDown::has_grant)[0].request());
  up.mutable_grant_reply();
  nodes.message(first, up, out);
  EXPECT_EQ(sent(id(3 - first.low), &proto::NodeDown::has_grant).size(), 1u);
  EXPECT_TRUE(out.answers.empty());
}

TEST_F(ClusterEvents, ARepeatedAskKeepsItsPlaceAndAnUnaskedOneIsDropped) {
  attach(1, {{"cpu", Amount::of(1)}});
  auto ticket = placer.ask_leases(ask_for(1, 8), out);
  EXPECT_EQ(placer.ask_leases(ask_for(5, 8), out), ticket);
  EXPECT_EQ(state.queue.find(ticket)->count, 5);
  state.queue.find(ticket)->asked_until = clock.now() + kLeaseAskHolds;
  pass(kLeaseAskHolds + kTick, {1});
  EXPECT_TRUE(state.queue.empty());
}

TEST_F(ClusterEvents, ANewLifeOfANodeLosesWhatTheOldOneRan) {
  attach(1, {{"cpu", Amount::of(4)}});
  auto actor = create(1, {{"cpu", Amount::of(1)}}, 60'000, "hits");
  say(1, actor, proto::ALIVE);
  proto::Register again;
  rpc::to_proto(id(1), again.mutable_node()->mutable_node());
  again.set_incarnation(2);
  EXPECT_FALSE(nodes.attach(again, out).has_failure());
  EXPECT_EQ(state_of(actor), proto::DEAD);
  again.set_incarnation(1);
  EXPECT_TRUE(nodes.attach(again, out).has_failure());
}

TEST_F(ClusterEvents, ANodeThatLeavesIsNoError) {
  attach(1, {{"cpu", Amount::of(4)}});
  proto::NodeUp up;
  up.mutable_leave()->set_reason("rayo stop");
  nodes.message(id(1), up, out);
  nodes.message(id(1), up, out);
  EXPECT_FALSE(state.nodes.find(id(1)));
  ASSERT_EQ(state.nodes.dead().size(), 1u);
  EXPECT_EQ(state.nodes.dead()[0].death().kind(), proto::STOPPED);
  EXPECT_EQ(state.events.events().back().severity(), "info");
}

TEST_F(ClusterEvents, TheTaskBacklogOfRayletsIsShownWithReasons) {
  attach(1, {{"cpu", Amount::of(2)}});
  proto::NodeUp up;
  *up.mutable_resources()->mutable_total() = rpc::to_proto(Resources{{"cpu", Amount::of(2)}});
  auto* pending = up.mutable_resources()->add_pending();
  pending->set_kind("task");
  pending->set_count(7);
  *pending->mutable_demand()->mutable_resources() = rpc::to_proto(Resources{{"tpu", Amount::of(1)}});
  nodes.message(id(1), up, out);
  auto status = status_of(state);
  ASSERT_EQ(status.pending_size(), 1);
  EXPECT_EQ(status.pending(0).count(), 7);
  EXPECT_EQ(status.pending(0).reasons(0).code(), "insufficient_resource");
}

TEST_F(ClusterEvents, WhatIsUnknownIsSaidSo) {
  EXPECT_TRUE(why_of(state, "0123456789").has_failure());
  EXPECT_TRUE(list_of(state, "unicorns").has_failure());
  proto::KillActor kill;
  rpc::to_proto(ActorId{5, 5}, kill.mutable_actor());
  EXPECT_EQ(actors.kill(kill, out).failure().kind(), proto::ACTOR_DIED);
  proto::FindActor find;
  find.set_name("nobody");
  EXPECT_EQ(actors.find(id(1), find).failure().kind(), proto::INVALID);
}

}  // namespace
}  // namespace rayo::head
