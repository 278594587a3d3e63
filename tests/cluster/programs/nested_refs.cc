// Refs inside values that nobody reads for longer than a home keeps what nobody holds, while the process that made them lets
// go at once: at each depth, with holders on each node. One line a check that failed, exit code 1 if any did.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <rayo/rayo.h>

namespace {

using Leaf = rayo::ObjectRef<int64_t>;
using Branch = rayo::ObjectRef<std::vector<Leaf>>;
using Tree = rayo::ObjectRef<std::vector<Branch>>;

// Keeps refs that it does not read before it is asked to.
struct Keeper {
  std::vector<Branch> branches;
  std::vector<Tree> trees;
  void keep(std::vector<Branch> given) { branches = std::move(given); }
  void keep_trees(std::vector<Tree> given) { trees = std::move(given); }
  int64_t read() {
    int64_t sum = 0;
    for (const Branch& branch : branches) sum += branch.get().at(0).get();
    for (const Tree& tree : trees) sum += tree.get().at(0).get().at(0).get();
    return sum;
  }
};

Branch branch(int64_t number) { return rayo::put(std::vector<Leaf>{rayo::put(number)}); }
Tree tree(int64_t number) { return rayo::put(std::vector<Branch>{branch(number)}); }

}  // namespace

int main(int argc, char** argv) {
  rayo::init(argc, argv);
  const auto nodes = rayo::nodes();
  int failed = 0;
  std::vector<rayo::ActorHandle<Keeper>> keepers;
  for (const rayo::NodeRecord& node : nodes) {
    auto& keeper = keepers.emplace_back(rayo::spawn<Keeper>({.resources = {.cpus = 0.0}, .node = node.id}));
    keeper.call<&Keeper::keep>(std::vector<Branch>{branch(1)}).get();
    // Of this process, and of one of each node.
    std::vector<Tree> trees = {tree(10)};
    for (const rayo::NodeRecord& maker : nodes) trees.push_back(rayo::remote<tree>({.node = maker.id}, 100).get());
    keeper.call<&Keeper::keep_trees>(std::move(trees)).get();
  }
  std::this_thread::sleep_for(std::chrono::seconds(3));  // a home keeps for 2 s what nobody holds
  const int64_t expected = 11 + 100 * static_cast<int64_t>(nodes.size());
  for (auto& keeper : keepers) {
    try {
      const int64_t sum = keeper.call<&Keeper::read>().get(std::chrono::seconds(20));
      if (sum == expected) continue;
      std::printf("FAILED: refs inside values: %lld, not %lld\n", static_cast<long long>(sum),
                  static_cast<long long>(expected));
    } catch (const rayo::Error& error) {
      std::printf("FAILED: refs inside values: %s\n", error.what());
    }
    ++failed;
  }
  std::printf("%zu nodes, %d failed\n", nodes.size(), failed);
  return failed != 0;
}
