// One cluster life from a seed: the head's deciding classes over simulated nodes, messages and time; faults
// as they come; the invariants below after every step.
//
//   1. a node's used + free = total, and nothing below zero
//   2. a name has one living actor, and the store says the same
//   3. nothing is STARTING or ALIVE on a node that the head does not count as living
//   4. what waits stands in the queue exactly once, what starts has its reservation, and nothing else does
//   5. incarnations only grow, and DEAD stays DEAD
//   6. free as placement sees it = the last report - what is promised and not yet reckoned with
//   7. the directory's counts are what is there
//   8. when the faults end and time passes: what the head calls ALIVE runs on that node in that incarnation, and
//      nothing else runs
//   9. an actor is restarted at most max_restarts times, and waits for that no longer than the longest back-off
//   10. a detached actor ends by kill or its own death alone, and its job ends with it and not before
//   11. a node stands once in the head's table: among the living or among the dead
//   12. no actor ends for want of handles while a node holds one whose stream the head knows to be broken
//   13. when the faults end: what lives and is not detached is held
//   14. when the faults end: a job that the head calls running has its driver, and a node that told of a handle has it
#pragma once

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "runtime/head/actor_requests.h"
#include "runtime/head/node_events.h"
#include "tests/simulation/sim_node.h"
#include "tests/testkit/manual_clock.h"
#include "tests/testkit/memory_store.h"

namespace rayo::simulation {

class SimCluster {
 public:
  explicit SimCluster(uint64_t seed, int nodes = 6);

  // Empty: every invariant holds; else which one is broken, and how.
  std::string live(int steps);
  int faults() const { return faults_; }
  // Rare paths that this life went through.
  const std::set<std::string>& probes() const { return probes_; }

 private:
  uint64_t pick(uint64_t below) { return random_() % below; }
  void step();
  void user_step();
  void node_step(SimNode& node);
  void fault_step();
  void pass(base::Duration span);
  void beats();
  void attach(SimNode& node);
  void break_stream(SimNode& node);
  void deliver(SimNode& node, const proto::NodeUp& up);
  std::string check_unheld(ActorId id) const;
  void create();
  void finish(head::Outcome out);
  bool write(const head::Batch& batch, bool promise);
  void quieten();
  std::string check();
  std::string check_nodes();
  std::string check_actors();
  std::string check_lives(ActorId id, const head::ActorDirectory::Actor& actor) const;
  std::string check_store();
  std::string check_end();

  std::mt19937_64 random_;
  testkit::ManualClock clock_;
  testkit::MemoryStore store_;
  bool disk_full_ = false;
  head::Batch unwritten_;
  head::ClusterState state_{clock_};
  head::Placer placer_{state_};
  head::NodeEvents events_{state_, placer_};
  head::ActorRequests requests_{state_, placer_};
  std::vector<SimNode> nodes_;
  std::vector<ActorId> actors_;
  std::vector<JobId> jobs_;
  std::map<ActorId, std::pair<uint32_t, bool>> seen_;  // incarnation, dead
  std::set<NodeId> out_of_sight_;                      // to the head, which knows that it is
  std::set<std::string> probes_;
  int faults_ = 0;
};

}  // namespace rayo::simulation
