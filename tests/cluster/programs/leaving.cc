// A driver of which a part runs on a node that stops, or that cannot start workers: tests/cluster/leaving_test.py.
//
//   cluster_leaving stops NODE    an actor that takes its time to end and one that may come back on NODE, and more tasks than the
//                                 cluster can hold; says "ready" when the first of them are done, then what became of all
//   cluster_leaving sick NODE     the same without the first actor, whose worker NODE cannot start
//   cluster_leaving bound NODE    an actor that only NODE may run; says "ready" and waits for a line
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include <rayo/rayo.h>

namespace {

constexpr int64_t kTasks = 100;

struct Slow {
  int64_t add(int64_t n) { return n + 1; }
  ~Slow() { std::this_thread::sleep_for(std::chrono::milliseconds(80)); }
};

struct Counter {
  int64_t add(int64_t n) { return n + 1; }
};

int64_t nap(int64_t number) {
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return number;
}

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

void use(rayo::NodeId node, bool slow) {
  rayo::ActorHandle<Slow> lingers;
  if (slow) {
    lingers = rayo::spawn<Slow>({.resources = {.cpus = 0}, .node = node});
    lingers.call<&Slow::add>(1).get();
  }
  auto counter = rayo::spawn<Counter>(
      {.resources = {.cpus = 0}, .node = node, .node_soft = true, .max_restarts = -1, .max_call_retries = -1});
  counter.call<&Counter::add>(1).get();
  std::vector<rayo::ObjectRef<int64_t>> results;
  for (int64_t i = 0; i < kTasks; ++i) results.push_back(rayo::remote<nap>(i));
  (void)rayo::wait(results, 8);
  say("ready");
  int64_t sum = 0;
  for (auto& result : results) sum += result.get();
  say("tasks: " + std::to_string(sum));
  say("actor: " + std::to_string(counter.call<&Counter::add>(6).get()));
}

}  // namespace

int main(int argc, char** argv) {
  rayo::init(argc, argv);
  if (argc < 3) return 0;
  const std::string what = argv[1];
  const rayo::NodeId node = *rayo::NodeId::from_hex(argv[2]);
  if (what == "bound") {
    auto actor = rayo::spawn<Counter>({.name = "bound", .node = node});
    say("ready");
    std::string line;
    std::getline(std::cin, line);
    return 0;
  }
  use(node, what == "stops");
  return 0;
}
