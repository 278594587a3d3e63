// The scheduler's decisions among 10,000 simulated nodes of four kinds: place, and take what the lease would hold.
#include <ctime>

#include "bench/harness.h"
#include "scheduler/placement.h"

namespace rayo::bench {
namespace {

using scheduler::Amount;
using scheduler::ClusterView;
using scheduler::Demand;

constexpr uint64_t kNodes = 10'000;

ClusterView ten_thousand_nodes() {
  ClusterView view;
  for (uint64_t n = 1; n <= kNodes; ++n) {
    std::vector<scheduler::Device> devices;
    for (uint64_t i = 0; i < n % 4; ++i)
      devices.push_back({"gpu-" + std::to_string(n) + "-" + std::to_string(i), 80LL << 30});
    view.put({.id = {n * 0xbf58476d1ce4e5b9ull, n},
              .name = "host" + std::to_string(n),
              .labels = {{"rack", std::to_string(n % 40)}},
              .capacity = {{{"cpu", Amount::of(32)}, {"memory", Amount::of(64e9)}}, std::move(devices)}});
  }
  return view;
}

// Deciding is computing alone, so its own processor time counts: other programs of the machine are not in it.
double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

double decisions_per_second(const Demand& demand, int count) {
  auto view = ten_thousand_nodes();
  const double begin = processor_seconds();
  for (int i = 0; i < count; ++i) {
    auto node = scheduler::place(demand, view, {.seed = static_cast<uint64_t>(i)});
    if (!node) return 0;
    auto* found = view.find(*node);
    found->capacity.take(*found->capacity.choose(demand));
  }
  return count / (processor_seconds() - begin);
}

}  // namespace
}  // namespace rayo::bench

int main() {
  using namespace rayo::bench;
  Report report(5);
  Demand cpu{.resources = {{"cpu", Amount::of(1)}}};
  Demand gpu{.resources = {{"cpu", Amount::of(1)}, {"gpu", Amount::of(0.3)}}, .gpu_memory_bytes = 8LL << 30};
  report.absolute({"scheduler.decision.cpu", "1/s", Better::kHigher, "", 100'000},
                  [&] { return decisions_per_second(cpu, 10'000); });
  report.absolute({"scheduler.decision.gpu", "1/s", Better::kHigher, "", 100'000},
                  [&] { return decisions_per_second(gpu, 10'000); });
  return report.print();
}
