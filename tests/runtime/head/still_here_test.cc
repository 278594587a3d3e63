// What a node names when it has opened its stream again: what had been written into the one that broke may be lost.
#include <algorithm>
#include <gtest/gtest.h>
#include <set>

#include "runtime/head/actor_requests.h"
#include "runtime/head/node_events.h"
#include "runtime/rpc/proto_ids.h"
#include "tests/testkit/manual_clock.h"

namespace rayo::head {
namespace {

const JobId kJob{9, 9};

struct StillHere : ::testing::Test {
  testkit::ManualClock clock;
  ClusterState state{clock};
  Placer placer{state};
  NodeEvents nodes{state, placer};
  ActorRequests actors{state, placer};
  Outcome out;
  std::set<uint64_t> joined;

  static NodeId id(uint64_t n) { return {n, n}; }

  void attach(uint64_t n) {
    proto::Register registering;
    rpc::to_proto(id(n), registering.mutable_node()->mutable_node());
    registering.set_incarnation(1);
    if (!joined.insert(n).second) rpc::to_proto(ClusterId{5, 5}, registering.mutable_cluster());
    nodes.attach(registering, out);
  }
  // On node 1.
  void begin(JobId job) {
    proto::NodeUp up;
    rpc::to_proto(job, up.mutable_job()->mutable_job());
    nodes.message(id(1), up, out);
  }
  ActorId create(const std::string& name) {
    const ActorId actor{1, 1};
    proto::RelayRequest request;
    auto* spec = request.mutable_create_actor()->mutable_spec();
    rpc::to_proto(actor, spec->mutable_actor());
    rpc::to_proto(kJob, spec->mutable_job());
    spec->set_name(name);
    EXPECT_EQ(actors.create(id(1), request, out).outcome, ActorDirectory::Creation::kNew);
    actors.admit(actor, out);
    return actor;
  }
  proto::ActorState state_of(ActorId actor) { return state.actors.find(actor)->info.state(); }
  void still_here(uint64_t from, const std::vector<JobId>& jobs, const std::vector<ActorId>& held) {
    proto::NodeUp up;
    up.mutable_still_here();
    for (JobId job : jobs) rpc::to_proto(job, up.mutable_still_here()->add_jobs());
    for (ActorId actor : held) rpc::to_proto(actor, up.mutable_still_here()->add_actors_held());
    nodes.message(id(from), up, out);
  }
};

// Else a job whose driver ended while packets were lost runs on, and keeps what its actors hold on other nodes.
TEST_F(StillHere, JobsThatEndedWhileTheirNodeCouldNotTellEndWhenItIsBack) {
  attach(1);
  attach(2);
  begin(kJob);
  const ActorId actor = create("");
  const JobId program{9, 10};
  proto::NodeUp up;
  rpc::to_proto(program, up.mutable_job()->mutable_job());
  rpc::to_proto(kJob, up.mutable_job()->mutable_parent());
  nodes.message(id(2), up, out);  // a process there opened it; its driver is its parent's
  still_here(2, {}, {});
  still_here(1, {kJob}, {});
  EXPECT_FALSE(state.jobs.ended(kJob));
  EXPECT_FALSE(state.jobs.ended(program));
  still_here(1, {}, {});
  EXPECT_TRUE(state.jobs.ended(kJob));
  EXPECT_TRUE(state.jobs.ended(program));
  EXPECT_EQ(state_of(actor), proto::DEAD);
  still_here(1, {}, {});
}

TEST_F(StillHere, HandlesThatWereDroppedWhileTheirNodeCouldNotTellAreDroppedWhenItIsBack) {
  attach(1);
  attach(2);
  begin(kJob);
  const ActorId actor = create("shared");
  auto hold = [&](uint64_t node) {
    proto::NodeUp up;
    rpc::to_proto(actor, up.mutable_actor_handles()->add_held());
    nodes.message(id(node), up, out);
  };
  hold(1);
  hold(2);
  still_here(2, {}, {});
  EXPECT_NE(state_of(actor), proto::DEAD) << "node 1 holds it";
  proto::FindActor by_name;
  by_name.set_name("shared");
  actors.find(id(2), by_name);
  still_here(1, {kJob}, {});
  EXPECT_NE(state_of(actor), proto::DEAD) << "who was given a handle holds it before it can say so";
  still_here(2, {}, {actor});
  still_here(2, {}, {actor});
  EXPECT_NE(state_of(actor), proto::DEAD);
  still_here(2, {}, {});
  EXPECT_EQ(state_of(actor), proto::DEAD);
  EXPECT_EQ(state.actors.find(actor)->info.death().kind(), proto::OUT_OF_SCOPE);
}

// The head was away for longer than anybody waits for it: node 1 has given a handle to node 2, let go of its own, and is the first
// to be back.
TEST_F(StillHere, AHandleThatWasTakenOutOfSightKeepsItsActor) {
  attach(1);
  attach(2);
  begin(kJob);
  const ActorId actor = create("shared");
  nodes.stream_ended(id(2));
  nodes.stream_ended(id(1));
  attach(1);
  still_here(1, {kJob}, {});
  proto::NodeUp dropped;
  rpc::to_proto(actor, dropped.mutable_actor_handles()->add_dropped());
  nodes.message(id(1), dropped, out);
  EXPECT_NE(state_of(actor), proto::DEAD) << "node 2 has not told what it holds";
  attach(2);
  EXPECT_NE(state_of(actor), proto::DEAD) << "nor has it now";
  still_here(2, {}, {actor});
  EXPECT_NE(state_of(actor), proto::DEAD);
  nodes.message(id(2), dropped, out);
  EXPECT_EQ(state_of(actor), proto::DEAD);
}

// A machine whose cable was cut is dead to the head, and comes back with the handles that it has.
TEST_F(StillHere, ANodeThatIsBackFromTheDeadIsAwaitedToo) {
  attach(1);
  attach(2);
  begin(kJob);
  const ActorId actor = create("shared");
  proto::NodeUp leave;
  leave.mutable_leave();
  nodes.message(id(2), leave, out);  // as good as lost
  attach(2);
  proto::NodeUp dropped;
  rpc::to_proto(actor, dropped.mutable_actor_handles()->add_dropped());
  nodes.message(id(1), dropped, out);
  EXPECT_NE(state_of(actor), proto::DEAD) << "node 2 has not told what it holds";
  still_here(2, {}, {actor});
  EXPECT_NE(state_of(actor), proto::DEAD);
  nodes.message(id(2), dropped, out);
  EXPECT_EQ(state_of(actor), proto::DEAD);
}

// Its side of the stream may be broken without our knowing.
TEST_F(StillHere, ANodeWhoseBeatsComeAgainIsAskedWhatItHolds) {
  attach(1);
  attach(2);
  begin(kJob);
  const ActorId actor = create("shared");
  auto beat = [&](uint64_t node) {
    proto::BeatRequest request;
    rpc::to_proto(id(node), request.mutable_node());
    request.set_incarnation(1);
    nodes.beat(request, out);
  };
  for (base::Duration gone{}; gone < std::chrono::seconds(2); gone += kTick) {
    clock.advance(kTick);
    beat(1);
    nodes.tick(out);
  }
  ASSERT_EQ(state.nodes.view().find(id(2))->state, scheduler::NodeState::kSuspect);
  proto::NodeUp dropped;
  rpc::to_proto(actor, dropped.mutable_actor_handles()->add_dropped());
  nodes.message(id(1), dropped, out);
  EXPECT_NE(state_of(actor), proto::DEAD);
  out.sends.clear();
  beat(2);
  const auto asked = [&](const Send& send) { return send.to == id(2) && send.message.has_ask_still_here(); };
  EXPECT_TRUE(std::ranges::any_of(out.sends, asked));
  EXPECT_NE(state_of(actor), proto::DEAD);
  still_here(2, {}, {});
  EXPECT_EQ(state_of(actor), proto::DEAD);
}

}  // namespace
}  // namespace rayo::head
