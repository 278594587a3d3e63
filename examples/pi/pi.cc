// Pi by throwing darts, on every node of the cluster: a task a batch, and which node ran how many of them.
//
//   pi [--tasks 64] [--darts 2000000]
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <rayo/rayo.h>

struct Batch {
  int64_t darts = 0;
  int64_t hits = 0;
  std::string address;  // of the node that ran it
};

Batch throw_darts(int64_t darts, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> side(-1, 1);
  Batch batch{.darts = darts, .address = rayo::context().address};
  for (int64_t i = 0; i < darts; ++i) {
    const double x = side(random);
    const double y = side(random);
    if (x * x + y * y <= 1) ++batch.hits;
  }
  return batch;
}

int64_t option(int argc, char** argv, const char* name, int64_t otherwise) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], name) == 0) return std::atoll(argv[i + 1]);
  }
  return otherwise;
}

int main(int argc, char** argv) {
  rayo::init(argc, argv);
  const int64_t tasks = option(argc, argv, "--tasks", 64);
  const int64_t darts = option(argc, argv, "--darts", 2'000'000);

  std::vector<rayo::ObjectRef<Batch>> pending;
  for (int64_t i = 0; i < tasks; ++i) pending.push_back(rayo::remote<throw_darts>(darts, static_cast<uint64_t>(i)));

  int64_t thrown = 0;
  int64_t hits = 0;
  std::map<std::string, int> batches_of;
  while (!pending.empty()) {
    auto [ready, rest] = rayo::wait(pending, 1);  // in the order in which they end
    for (const auto& ref : ready) {
      const Batch batch = ref.get();
      thrown += batch.darts;
      hits += batch.hits;
      ++batches_of[batch.address];
    }
    pending = std::move(rest);
  }
  std::printf("pi is about %.5f (%lld darts)\n", 4.0 * static_cast<double>(hits) / static_cast<double>(thrown),
              static_cast<long long>(thrown));
  for (const auto& [address, batches] : batches_of) std::printf("  %-24s %d batches\n", address.c_str(), batches);
}
