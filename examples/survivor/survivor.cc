// An actor on every node, called again and again. When a node dies the program is told why, and goes on with the
// others.
//
//   survivor [--seconds 30]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include <rayo/rayo.h>

struct Echo {
  int64_t answers = 0;
  int64_t call() { return ++answers; }
};

struct Resident {
  std::string address;
  rayo::ActorHandle<Echo> echo;
};

int main(int argc, char** argv) {
  rayo::init(argc, argv);
  int seconds = 30;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], "--seconds") == 0) seconds = std::atoi(argv[i + 1]);
  }

  std::vector<Resident> residents;
  for (const rayo::NodeRecord& node : rayo::nodes()) {
    if (node.state == rayo::NodeState::kAlive)
      residents.push_back({node.address, rayo::spawn<Echo>({.node = node.id})});
  }
  for (Resident& resident : residents) resident.echo.call<&Echo::call>().get();
  std::printf("all actors answer, on %zu nodes\n", residents.size());
  std::fflush(stdout);

  int64_t answers = 0;
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (!residents.empty() && std::chrono::steady_clock::now() < end) {
    for (auto resident = residents.begin(); resident != residents.end();) {
      try {
        resident->echo.call<&Echo::call>().get();
        ++answers;
        ++resident;
      } catch (const rayo::ActorDied& died) {
        std::printf("the actor on %s: %s\n", resident->address.c_str(), died.what());
        std::fflush(stdout);
        resident = residents.erase(resident);
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::printf("%lld answers; %zu actors still answer\n", static_cast<long long>(answers), residents.size());
  return residents.empty() ? 1 : 0;
}
