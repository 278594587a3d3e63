// What a user loses if these fail: tasks fail on a node that cannot run them though another one can, or head and raylet talk of
// those that wait without end.
#include <gtest/gtest.h>

#include "runtime/head/node_events.h"
#include "runtime/rpc/proto_demand.h"
#include "tests/testkit/manual_clock.h"

namespace rayo::head {
namespace {

using base::Amount;
using base::Resources;

const JobId kJob{9, 9};

struct Refusals : ::testing::Test {
  testkit::ManualClock clock;
  ClusterState state{clock};
  Placer placer{state};
  NodeEvents nodes{state, placer};
  Outcome out;

  static NodeId id(uint64_t n) { return {n, n}; }

  void attach(uint64_t n, double cpus) {
    proto::Register registering;
    auto* node = registering.mutable_node();
    rpc::to_proto(id(n), node->mutable_node());
    *node->mutable_total() = rpc::to_proto(Resources{{"cpu", Amount::of(cpus)}});
    *node->mutable_free() = node->total();
    registering.set_incarnation(1);
    nodes.attach(registering, out);
  }
  void start_job(uint64_t on) {
    proto::NodeUp up;
    rpc::to_proto(kJob, up.mutable_job()->mutable_job());
    nodes.message(id(on), up, out);
  }
  void pass(base::Duration span) {
    for (base::Duration gone{}; gone < span; gone += kTick) {
      clock.advance(kTick);
      proto::BeatRequest beat;
      rpc::to_proto(id(1), beat.mutable_node());
      beat.set_incarnation(1);
      nodes.beat(beat, out);
      nodes.tick(out);
    }
  }
  std::vector<uint64_t> grants_to(uint64_t n) const {
    std::vector<uint64_t> requests;
    for (const auto& send : out.sends)
      if (send.to == id(n) && send.message.has_grant()) requests.push_back(send.message.request());
    return requests;
  }
  void cannot_start(uint64_t n, uint64_t request) {
    proto::NodeUp up;
    up.set_request(request);
    auto* reason = up.mutable_grant_reply()->add_reasons();
    reason->set_code("worker_start");
    reason->set_text("cannot write: No space left on device");
    nodes.message(id(n), up, out);
  }
};

proto::PlaceLeasesRequest ask_for(double cpus, uint64_t shape) {
  proto::PlaceLeasesRequest ask;
  rpc::to_proto(NodeId{1, 1}, ask.mutable_node());
  rpc::to_proto(ProcessId{7, 7}, ask.mutable_process());
  rpc::to_proto(kJob, ask.mutable_job());
  *ask.mutable_demand()->mutable_resources() = rpc::to_proto(Resources{{"cpu", Amount::of(cpus)}});
  ask.set_count(1);
  ask.set_shape(shape);
  return ask;
}

// Their questions would answer each other with nothing, without end.
TEST_F(Refusals, ShapesThatDifferForTheirProcessAloneWaitApart) {
  attach(1, 1);
  const auto one = placer.ask_leases(ask_for(8, 1), out);
  EXPECT_NE(placer.ask_leases(ask_for(8, 2), out), one) << "of another max_calls or schedule_timeout";
  EXPECT_EQ(placer.ask_leases(ask_for(8, 1), out), one);
}
// The node is the emptiest, so it is the one that is asked: its failures are not the program's.
TEST_F(Refusals, ANodeThatCannotStartWorkersFailsNobodyAndIsAskedLessAndLess) {
  attach(1, 2);
  start_job(1);
  placer.ask_leases(ask_for(2, 1), out);
  for (int refused = 0; refused < 4; ++refused) {
    const auto grants = grants_to(1);
    ASSERT_EQ(grants.size(), 1u) << refused;
    out = {};
    cannot_start(1, grants[0]);
    EXPECT_TRUE(out.answers.empty());
    pass(kRefusalHolds * (1 << refused) - kTick);
    EXPECT_TRUE(grants_to(1).empty()) << refused;
    EXPECT_EQ(state.queue.reasons(state.queue.items().front(), state.nodes).at(0).code(), "worker_start");
    pass(2 * kTick);
  }
  bool warned = false;
  for (const auto& event : state.events.events())
    warned |= event.text().find("waits: worker_start: cannot write") != std::string::npos;
  EXPECT_TRUE(warned);
  attach(2, 2);
  const auto grants = grants_to(1);
  ASSERT_EQ(grants.size(), 1u);
  cannot_start(1, grants[0]);
  EXPECT_EQ(grants_to(2).size(), 1u) << "another one has room";
}

}  // namespace
}  // namespace rayo::head
