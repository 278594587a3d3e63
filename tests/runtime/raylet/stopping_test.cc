// If this fails: what the head sends to a node that stops, and is the emptiest of all for a moment, fails there.
#include <filesystem>
#include <gtest/gtest.h>

#include "runtime/base/ids.h"
#include "runtime/raylet/actor_host.h"
#include "runtime/rpc/proto_demand.h"

namespace rayo::raylet {
namespace {

using namespace std::chrono_literals;

TEST(Stopping, NothingIsGrantedAndNothingStarts) {
  base::run_in_loop([] {
    base::Loop& loop = *base::current_loop();
    char name[] = "/tmp/rayo-stopping-XXXXXX";
    ASSERT_TRUE(mkdtemp(name));
    const base::Path folder = name;
    {
      const OwnNode own{.id = NodeId{1, 1}};
      LeaseTable table(scheduler::Capacity(base::Resources{{"cpu", base::Amount::of(4)}}, {}));
      Processes processes(own.id);
      Jobs jobs([](JobId, base::TimePoint) { return base::failed(absl::StatusCode::kUnavailable, "no head"); });
      LogFiles logs(loop, folder / "workers", [](const PrintedLines&) {});
      WorkerStarter starter(loop, processes, jobs, logs, folder / "raylet.sock", [](PackageId, base::TimePoint) {
        return base::failed(absl::StatusCode::kUnavailable, "no program");
      });
      Workers workers(loop, processes, jobs, starter, {});
      LeaseService leases(
          loop, own, table, processes, workers,
          {.place = nullptr, .end_lease_from = nullptr, .check_leases = nullptr, .resources_changed = [] {}});
      std::vector<proto::ActorInfo> told;
      ActorHost actors(loop, table, leases, processes, workers,
                       [&](const proto::ActorInfo& info) { told.push_back(info); });
      leases.stop_granting();
      actors.refuse_all();

      proto::Grant grant;
      grant.set_count(1);
      EXPECT_EQ(leases.grant(grant, loop.deadline(10s)).leases_size(), 0);
      proto::StartActor start;
      rpc::to_proto(ActorId{4, 4}, start.mutable_spec()->mutable_actor());
      start.set_incarnation(1);
      rpc::to_proto(base::random_id<LeaseId>(), start.mutable_lease());
      actors.start(start);
      for (const auto limit = loop.deadline(10s); told.empty() && loop.now() < limit;) base::sleep_for(1ms);
      ASSERT_EQ(told.size(), 1u);
      EXPECT_EQ(told[0].state(), proto::PENDING) << "DEAD would be for good";
      EXPECT_EQ(told[0].reasons(0).code(), "node_unavailable");
      EXPECT_EQ(table.size(), 0u);
    }
    std::filesystem::remove_all(folder);
  });
}

}  // namespace
}  // namespace rayo::raylet
