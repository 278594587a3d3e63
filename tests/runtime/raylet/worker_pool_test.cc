// If this fails: actors wait for workers that never come, a finished actor's process is handed to the next
// one, or idle processes pile up without end.
#include "runtime/raylet/worker_pool.h"

#include <gtest/gtest.h>

#include "runtime/base/ids.h"

namespace rayo::raylet {
namespace {

using namespace std::chrono_literals;

class WorkerPoolTest : public testing::Test {
 protected:
  template <class A>
  std::vector<A> take() {
    std::vector<A> found;
    for (auto& action : pool_.take_actions())
      if (auto* one = std::get_if<A>(&action)) found.push_back(*one);
    return found;
  }
  // Brings up every process that the pool asks for, until it asks for none; the Gives and Refuses seen
  // meanwhile.
  std::vector<WorkerPool::Give> settle() {
    std::vector<WorkerPool::Give> gives;
    for (auto actions = pool_.take_actions(); !actions.empty(); actions = pool_.take_actions()) {
      for (auto& action : actions) {
        if (auto* start = std::get_if<WorkerPool::Start>(&action)) pool_.started(start->process, now_);
        if (auto* give = std::get_if<WorkerPool::Give>(&action)) gives.push_back(*give);
      }
    }
    return gives;
  }

  base::TimePoint now_{1h};
  JobId job_ = base::random_id<JobId>();
  WorkerPool pool_{{.starting = 4, .spare = 1, .idle_max = 2, .idle_time = 60s}};
};

TEST_F(WorkerPoolTest, GivesAStartedWorkerAndKeepsOneSpare) {
  pool_.want(1, job_, WorkerPool::Use::kActor);
  auto starts = take<WorkerPool::Start>();
  ASSERT_EQ(starts.size(), 2u);  // the one that is wanted and a spare one
  pool_.started(starts[0].process, now_);
  auto gives = take<WorkerPool::Give>();
  ASSERT_EQ(gives.size(), 1u);
  EXPECT_EQ(gives[0].ticket, 1u);
  EXPECT_EQ(gives[0].process, starts[0].process);
  EXPECT_STREQ(pool_.state_name(starts[0].process), "actor");
  EXPECT_STREQ(pool_.state_name(starts[1].process), "starting");
}

TEST_F(WorkerPoolTest, WaitersAreServedInTheirOrder) {
  for (Ticket ticket = 1; ticket <= 6; ++ticket) pool_.want(ticket, job_, WorkerPool::Use::kTasks);
  auto gives = settle();
  ASSERT_EQ(gives.size(), 6u);
  for (size_t i = 0; i < gives.size(); ++i) EXPECT_EQ(gives[i].ticket, i + 1);
}

// Else each new actor shares its cores with the start of the worker that takes its worker's place.
TEST_F(WorkerPoolTest, TheNextSpareOneIsSaidToBeAheadOfUse) {
  pool_.open_job(job_, true);
  for (const auto& start : take<WorkerPool::Start>()) {
    EXPECT_FALSE(start.ahead) << "the first are wanted soon";
    pool_.started(start.process, now_);
  }
  pool_.want(1, job_, WorkerPool::Use::kActor);
  auto starts = take<WorkerPool::Start>();
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_TRUE(starts[0].ahead);
}

TEST_F(WorkerPoolTest, NeverStartsMoreThanItsLimitAtATime) {
  for (Ticket ticket = 1; ticket <= 50; ++ticket) pool_.want(ticket, job_, WorkerPool::Use::kTasks);
  EXPECT_EQ(take<WorkerPool::Start>().size(), 4u);
}

TEST_F(WorkerPoolTest, ATaskWorkerIsUsedAgainAnActorsNever) {
  pool_.want(1, job_, WorkerPool::Use::kTasks);
  ProcessId tasks = settle().at(0).process;
  pool_.release(tasks, now_);
  EXPECT_STREQ(pool_.state_name(tasks), "idle");
  pool_.want(2, job_, WorkerPool::Use::kActor);
  ProcessId actor = settle().at(0).process;
  EXPECT_EQ(actor, tasks);  // the youngest idle one
  pool_.release(actor, now_);
  EXPECT_STREQ(pool_.state_name(actor), "stopping");
}

TEST_F(WorkerPoolTest, AWorkerWithAnEnvironmentServesItsTicketAlone) {
  pool_.want(1, job_, WorkerPool::Use::kActor, {"A=1"});
  pool_.want(2, job_, WorkerPool::Use::kActor);
  ProcessId own;
  for (auto& start : take<WorkerPool::Start>())
    if (!start.environment.empty()) own = start.process;
  ASSERT_TRUE(own);
  pool_.started(own, now_);
  auto gives = take<WorkerPool::Give>();
  ASSERT_EQ(gives.size(), 1u);
  EXPECT_EQ(gives[0].ticket, 1u);
}

TEST_F(WorkerPoolTest, AFailedStartRefusesWhatWaitsAndStartsNoneAgainByItself) {
  pool_.want(1, job_, WorkerPool::Use::kActor);
  pool_.want(2, job_, WorkerPool::Use::kTasks);
  auto starts = take<WorkerPool::Start>();
  proto::Failure failure;
  failure.set_text("never reached rayo::init");
  pool_.start_failed(starts[0].process, {failure});
  int refused = 0, started = 0;
  for (auto& action : pool_.take_actions()) {
    if (auto* refuse = std::get_if<WorkerPool::Refuse>(&action)) {
      ++refused;
      EXPECT_EQ(refuse->why.failure.text(), "never reached rayo::init");
    }
    started += std::holds_alternative<WorkerPool::Start>(action);
  }
  EXPECT_EQ(refused, 2);
  EXPECT_EQ(started, 0);
}

TEST_F(WorkerPoolTest, TheEndOfAJobEndsItsWorkersAndRefusesItsTickets) {
  pool_.want(1, job_, WorkerPool::Use::kActor);
  settle();
  pool_.want(2, job_, WorkerPool::Use::kTasks, {"NEVER=1"});
  take<WorkerPool::Start>();
  proto::Failure why;
  why.set_text("its driver has ended");
  pool_.close_job(job_, why);
  size_t stops = 0, refusals = 0;
  for (auto& action : pool_.take_actions()) {
    stops += std::holds_alternative<WorkerPool::Stop>(action);
    refusals += std::holds_alternative<WorkerPool::Refuse>(action);
  }
  EXPECT_EQ(refusals, 1u);
  EXPECT_EQ(stops, static_cast<size_t>(pool_.workers()));
}

TEST_F(WorkerPoolTest, IdleWorkersBeyondTheSpareOnesExpire) {
  pool_.want(1, job_, WorkerPool::Use::kTasks);
  pool_.want(2, job_, WorkerPool::Use::kTasks);
  auto gives = settle();
  for (auto& give : gives) pool_.release(give.process, now_);
  take<WorkerPool::Stop>();  // what was over idle_max at once
  EXPECT_NE(pool_.next_deadline(), base::kForever);
  pool_.expire(now_ + 59s);
  EXPECT_TRUE(take<WorkerPool::Stop>().empty());
  pool_.expire(now_ + 61s);
  EXPECT_FALSE(take<WorkerPool::Stop>().empty());
  EXPECT_EQ(pool_.next_deadline(), base::kForever);
}

TEST_F(WorkerPoolTest, EventsMayComeTwice) {
  pool_.want(1, job_, WorkerPool::Use::kTasks);
  pool_.want(1, job_, WorkerPool::Use::kTasks);
  auto starts = take<WorkerPool::Start>();
  pool_.started(starts[0].process, now_);
  pool_.started(starts[0].process, now_);
  EXPECT_EQ(take<WorkerPool::Give>().size(), 1u);
  pool_.release(starts[0].process, now_);
  pool_.release(starts[0].process, now_);
  pool_.gone(starts[0].process);
  pool_.gone(starts[0].process);
  EXPECT_FALSE(pool_.knows(starts[0].process));
}

TEST_F(WorkerPoolTest, ACancelledTicketGetsNoWorkerAndItsOwnProcessEnds) {
  pool_.want(1, job_, WorkerPool::Use::kActor, {"A=1"});
  ProcessId own;
  for (auto& start : take<WorkerPool::Start>())
    if (!start.environment.empty()) own = start.process;
  pool_.cancel(1);
  auto stops = take<WorkerPool::Stop>();
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_EQ(stops[0].process, own);
}

}  // namespace
}  // namespace rayo::raylet
