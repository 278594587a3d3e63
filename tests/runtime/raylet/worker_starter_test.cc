// If this fails: processes of programs that have ended stay on a node.
#include "runtime/raylet/worker_starter.h"

#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>

#include "runtime/base/ids.h"

namespace rayo::raylet {
namespace {

using namespace std::chrono_literals;

// The first run of a program on a node takes as long as its transfer, and its driver may end meanwhile.
TEST(WorkerStarter, WhatEndsWhileItsProgramIsOnTheWayIsNotStarted) {
  base::run_in_loop([] {
    base::Loop& loop = *base::current_loop();
    char name[] = "/tmp/rayo-starter-XXXXXX";
    ASSERT_TRUE(mkdtemp(name));
    const base::Path folder = name;
    {
      Processes processes(NodeId{1, 1});
      Jobs jobs([](JobId, base::TimePoint) { return base::failed(absl::StatusCode::kUnavailable, "no head"); });
      LogFiles logs(loop, folder / "workers", [](const PrintedLines&) {});
      ASSERT_TRUE(logs.start().ok());
      base::Event asked, came;
      WorkerStarter starter(loop, processes, jobs, logs, folder / "raylet.sock", [&](PackageId, base::TimePoint) {
        asked.set();
        came.wait();
        return base::StatusOr<base::Fd>(base::Fd(::open("/bin/sleep", O_RDONLY | O_CLOEXEC)));
      });
      base::OneShot<StartFailure> failed;
      starter.set_listener({.started = [](ProcessId) {},
                            .adopted = [](ProcessId, JobId) {},
                            .failed = [&](ProcessId, const StartFailure& why) { failed.set(why); }});
      const auto job = base::random_id<JobId>();
      jobs.add({.id = job, .package = {1, 1}, .program = "sleep", .arguments = {"sleep", "100"}});
      starter.start(base::random_id<ProcessId>(), job, {});
      ASSERT_TRUE(asked.wait(loop.deadline(10s)));
      jobs.end(job, "its driver is gone");
      came.set();
      auto why = failed.wait(loop.deadline(10s));
      ASSERT_TRUE(why);
      EXPECT_EQ(why->failure.text(), "its job has ended");
      EXPECT_FALSE(why->of_node) << "it would be asked of every node";
      EXPECT_EQ(starter.children(), 0);
      starter.end_all(100ms, loop.deadline(10s));
    }
    std::filesystem::remove_all(folder);
  });
}

}  // namespace
}  // namespace rayo::raylet
