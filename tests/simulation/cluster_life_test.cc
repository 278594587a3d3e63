// What a user loses if this fails: some history of crashes, cuts and full disks after which the cluster has
// lost an actor, runs one twice, or never gives a resource back. RAYO_SIM_SEED=N runs that one life again,
// RAYO_SIM_LIVES sets how many; both: so many from that seed on.
#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>

#include "runtime/base/ids.h"
#include "tests/simulation/sim_cluster.h"

namespace rayo::simulation {
namespace {

constexpr int kSteps = 300;
constexpr int kNodes = 6;
// In so many lives every rare path is gone through.
constexpr uint64_t kLivesThatSeeAll = 500;

uint64_t number_from(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(ClusterLife, InvariantsHoldAfterEveryStep) {
  uint64_t seed_given = number_from("RAYO_SIM_SEED", 0);
  uint64_t lives = number_from("RAYO_SIM_LIVES", seed_given ? 1 : 2000);
  uint64_t first = seed_given ? seed_given : base::random_bits() >> 16;
  std::printf("seeds %llu to %llu\n", static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(first + lives - 1));
  std::set<std::string> probes;
  uint64_t faults = 0;
  for (uint64_t seed = first; seed < first + lives; ++seed) {
    SimCluster cluster(seed, kNodes);
    auto broken = cluster.live(kSteps);
    ASSERT_EQ(broken, "") << "RAYO_SIM_SEED=" << seed;
    faults += static_cast<uint64_t>(cluster.faults());
    probes.insert(cluster.probes().begin(), cluster.probes().end());
  }
  if (lives < kLivesThatSeeAll) return;
  EXPECT_GE(faults, 5 * lives);
  // The rare paths were gone through.
  for (const char* probe :
       {"a raylet crashed", "a node was cut off", "an actor's process died", "a node left", "a job ended",
        "a job ended and its node could not tell", "a creation refused by a full disk",
        "a node came back from the dead", "an actor that began before it was written down"}) {
    EXPECT_TRUE(probes.contains(probe)) << probe;
  }
}

}  // namespace
}  // namespace rayo::simulation
