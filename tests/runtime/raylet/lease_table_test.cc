// If this fails: a node hands out more than it has, or keeps what a dead requester held.
#include "runtime/raylet/lease_table.h"

#include <gtest/gtest.h>

#include "runtime/base/ids.h"

namespace rayo::raylet {
namespace {

using base::Amount;

scheduler::Demand cpus(double amount) { return {.resources = {{"cpu", Amount::of(amount)}}}; }

class LeaseTableTest : public testing::Test {
 protected:
  LeaseId grant(double amount) {
    Lease lease{.id = base::random_id<LeaseId>(), .job = job_, .requester = requester_, .requester_node = node_};
    LeaseId id = lease.id;
    return table_.grant(lease, cpus(amount)) ? id : LeaseId{};
  }
  double free() const { return table_.ledger().capacity().free().get("cpu").value(); }

  JobId job_ = base::random_id<JobId>();
  ProcessId requester_ = base::random_id<ProcessId>();
  NodeId node_ = base::random_id<NodeId>();
  LeaseTable table_{scheduler::Capacity({{"cpu", Amount::of(2)}}, {})};
};

TEST_F(LeaseTableTest, GrantsWhatFitsAndNoMore) {
  EXPECT_TRUE(grant(1.5));
  EXPECT_FALSE(grant(1));
  EXPECT_TRUE(grant(0.5));
  EXPECT_EQ(free(), 0);
}

TEST_F(LeaseTableTest, TheSameLeaseTwiceHoldsOnce) {
  Lease lease{.id = base::random_id<LeaseId>()};
  EXPECT_TRUE(table_.grant(lease, cpus(1)));
  EXPECT_TRUE(table_.grant(lease, cpus(1)));
  EXPECT_EQ(free(), 1);
  EXPECT_TRUE(table_.end(lease.id));
  EXPECT_FALSE(table_.end(lease.id));
  EXPECT_EQ(free(), 2);
}

TEST_F(LeaseTableTest, AGrantThatIsAskedForAgainKeepsItsWorker) {
  Lease lease{.id = base::random_id<LeaseId>(), .job = job_};
  ASSERT_TRUE(table_.grant(lease, cpus(1)));
  auto worker = base::random_id<ProcessId>();
  table_.set_worker(lease.id, worker);
  EXPECT_EQ(table_.grant(lease, cpus(1))->worker, worker);
}

TEST_F(LeaseTableTest, IsFoundByWhomItBelongsTo) {
  LeaseId id = grant(1);
  auto worker = base::random_id<ProcessId>();
  table_.set_worker(id, worker);
  EXPECT_EQ(table_.of_worker(worker)->id, id);
  EXPECT_EQ(table_.of_requester(requester_), std::vector<LeaseId>{id});
  EXPECT_EQ(table_.of_requester_node(node_), std::vector<LeaseId>{id});
  EXPECT_EQ(table_.of_job(job_), std::vector<LeaseId>{id});
  table_.end(id);
  EXPECT_EQ(table_.of_worker(worker), nullptr);
}

// A grant, or the word of its end, may be lost with the head or a connection: such a lease must not hold its CPU for ever.
TEST_F(LeaseTableTest, ALeaseOfAnotherNodeIsToBeConfirmedOnceASpan) {
  using namespace std::chrono_literals;
  base::TimePoint now{1h};
  LeaseId id = grant(1);
  EXPECT_TRUE(table_.unconfirmed(now).empty());  // its worker is on its way, and so is the grant
  table_.set_worker(id, base::random_id<ProcessId>());
  table_.confirm(id, now);
  EXPECT_TRUE(table_.unconfirmed(now + 29s - 30s).empty());
  EXPECT_EQ(table_.unconfirmed(now), (std::map<NodeId, std::vector<LeaseId>>{{node_, {id}}}));
  table_.confirm(id, now + 30s);
  EXPECT_TRUE(table_.unconfirmed(now + 29s).empty());
  table_.confirm(base::random_id<LeaseId>(), now);  // has ended meanwhile
  table_.set_told(id);  // a process of this node has it: it says itself when it needs it no longer
  EXPECT_TRUE(table_.unconfirmed(now + 1h).empty());
}

TEST_F(LeaseTableTest, ALentCpuServesAnotherAndComesBackInTurn) {
  LeaseId waits = grant(2);
  EXPECT_EQ(table_.waiting(), 0u);
  table_.lend(waits);
  EXPECT_EQ(table_.waiting(), 1u);
  LeaseId other = grant(2);
  ASSERT_TRUE(other);
  EXPECT_FALSE(table_.take_back(waits));
  EXPECT_FALSE(table_.line_empty());
  EXPECT_TRUE(table_.next_taken_back().empty());
  table_.end(other);
  EXPECT_EQ(table_.next_taken_back(), std::vector<LeaseId>{waits});
  EXPECT_EQ(table_.waiting(), 0u);
  EXPECT_TRUE(table_.line_empty());
  EXPECT_EQ(free(), 0);
  table_.end(waits);
  EXPECT_EQ(free(), 2);
}

// A large lease would starve if smaller ones that wait behind it were served first.
TEST_F(LeaseTableTest, WhoComesLaterToTheLineWaitsThoughItWouldFit) {
  LeaseId large = grant(2);
  table_.lend(large);
  LeaseId small = grant(1);
  LeaseId runs = grant(1);
  EXPECT_FALSE(table_.take_back(large));
  table_.lend(small);
  EXPECT_EQ(free(), 1);
  EXPECT_FALSE(table_.take_back(small));
  table_.end(runs);
  EXPECT_EQ(table_.next_taken_back(), std::vector<LeaseId>{large});
  table_.end(large);
  EXPECT_EQ(table_.next_taken_back(), std::vector<LeaseId>{small});
}

TEST_F(LeaseTableTest, AnEndedLeaseWaitsForNothing) {
  LeaseId waits = grant(2);
  table_.lend(waits);
  LeaseId other = grant(2);
  EXPECT_FALSE(table_.take_back(waits));
  table_.end(waits);
  EXPECT_TRUE(table_.line_empty());
  table_.end(other);
  EXPECT_TRUE(table_.next_taken_back().empty());
  EXPECT_EQ(free(), 2);
}

}  // namespace
}  // namespace rayo::raylet
