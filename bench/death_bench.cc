// How soon the callers of a worker that is killed know of it, on its node and on another one: from the kill to the error
// that the waiting get() throws. The budget is absolute.
#include <signal.h>
#include <stdexcept>
#include <unistd.h>

#include <rayo/rayo.h>

#include "bench/harness.h"
#include "bench/local_cluster.h"

namespace rayo::bench {
namespace {

constexpr int kKills = 7;  // a round

struct Victim {
  int64_t pid() { return ::getpid(); }
  void hang() {
    for (;;) ::pause();
  }
};

double known_ms(const std::string& node) {
  std::vector<double> spans;
  for (int i = 0; i < kKills; ++i) {
    ActorOptions there;
    there.labels.push_back({.key = "bench", .values = {node}});
    const auto victim = spawn<Victim>(there);
    const int64_t pid = victim.call<&Victim::pid>().get();
    const auto under_way = victim.call<&Victim::hang>();
    (void)wait(std::vector{under_way}, 1, std::chrono::milliseconds(20));
    const auto begin = std::chrono::steady_clock::now();
    ::kill(static_cast<pid_t>(pid), SIGKILL);
    try {
      under_way.get();
    } catch (const ActorDied&) {
      spans.push_back(seconds_since(begin) * 1e3);
    }
  }
  if (spans.size() != kKills) throw std::runtime_error("a killed actor is not known as dead");
  return percentile(spans, 0.5);
}

int run(int argc, char** argv) {
  LocalCluster cluster;
  cluster.add_node();
  init(argc, argv);
  Report report(3);
  report.absolute({"death.known_on_its_node", "ms", Better::kLower, "", 50}, [] { return known_ms("first"); });
  report.absolute({"death.known_on_another_node", "ms", Better::kLower, "", 50}, [] { return known_ms("second"); });
  shutdown();
  return report.print();
}

}  // namespace
}  // namespace rayo::bench

int main(int argc, char** argv) {
  if (rayo::is_worker()) rayo::init(argc, argv);  // does not return
  try {
    return rayo::bench::run(argc, argv);
  } catch (const std::exception& error) {  // so that the cluster goes with its object
    std::fprintf(stderr, "death_bench: %s\n", error.what());
    return 1;
  }
}
