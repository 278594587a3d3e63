// Actors that outlive the program that made them, and actors that come back after deaths.
//
//   cluster_lives detach    spawns the detached actor "keeper" of the namespace "lives" and ends
//   cluster_lives detach-elsewhere    the same, where the resource "elsewhere" is; does not wait for it
//   cluster_lives detach-with-refs    a detached "phoenix" that may restart, made with refs: prints its count
//   cluster_lives use-phoenix         prints its pid, then its count
//   cluster_lives detach-large        the same with a ref to more than it can keep: prints why not
//   cluster_lives use       finds it and counts with it: prints the count
//   cluster_lives kill      ends it
//   cluster_lives restart   an actor is killed with -9 and comes back, until it may not: exit 0 where all held
//   cluster_lives kill-lives    rayo::kill with no_restart = false, until it may not come back: exit 0 where all held
//   cluster_lives retry     calls under way at a death run in the next life: exit 0 where all held
//   cluster_lives overflow  a concurrent call overflows its stack: prints the error
//   cluster_lives cycles    joins the cluster and leaves it 200 times: exit 0 where nothing was left behind
//   cluster_lives move      prints the node of an actor that may be restarted, and again each time it has moved
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>

#include <rayo/rayo.h>

namespace {

using namespace std::chrono_literals;

struct Keeper {
  int64_t count = 0;
  int64_t add() { return ++count; }
};

struct Phoenix {
  int64_t value;
  explicit Phoenix(int64_t from) : value(from) {}
  int64_t add() { return ++value; }
  int64_t pid() { return ::getpid(); }
  std::string node() { return rayo::context().node.hex(); }
  uint32_t incarnation() { return rayo::context().incarnation; }
  void hang(std::string begun) {
    std::ofstream(begun).put('+');
    for (;;) ::pause();
  }
  void sleep(int64_t ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }
};

struct Shelf {
  std::string text;
  explicit Shelf(std::string from) : text(std::move(from)) {}
};

struct Deep {
  int64_t dive(int64_t depth) {
    volatile char frame[4096];
    frame[0] = static_cast<char>(depth);
    return depth == 0 ? 0 : dive(depth - 1) + frame[0] - static_cast<char>(depth) + 1;
  }
};

int g_failed = 0;

void check(bool holds, const char* what) {
  if (holds) return;
  std::printf("FAILED: %s\n", what);
  ++g_failed;
}

int restart() {
  auto actor = rayo::spawn<Phoenix>({.max_restarts = 2}, rayo::put(int64_t{10}));
  for (uint32_t life = 1; life <= 3; ++life) {
    check(actor.call<&Phoenix::incarnation>().get(20s) == life, "the incarnation grows by one");
    check(actor.call<&Phoenix::add>().get(20s) == 11, "its constructor runs again, with its arguments");
    const auto pid = static_cast<pid_t>(actor.call<&Phoenix::pid>().get(20s));
    const std::string begun = "/tmp/rayo-lives-" + std::to_string(pid);
    auto under_way = actor.call<&Phoenix::hang>(begun);
    while (!std::filesystem::remove(begun)) std::this_thread::yield();
    ::kill(pid, SIGKILL);
    try {
      under_way.get(20s);
      check(false, "a call under way ends with the life");
    } catch (const rayo::ActorDied& died) {
      check(died.death() != nullptr && died.death()->signal == SIGKILL, "the call is told the signal");
    }
  }
  try {
    actor.call<&Phoenix::add>().get(20s);
    check(false, "it came back once too often");
  } catch (const rayo::ActorDied& died) {
    check(died.death() != nullptr, "its last death has a record");
  }
  return g_failed;
}

int kill_lives() {
  auto actor = rayo::spawn<Phoenix>({.max_restarts = 2}, int64_t{10});
  int64_t before = 0;
  for (uint32_t life = 1; life <= 3; ++life) {
    check(actor.call<&Phoenix::incarnation>().get(20s) == life, "the incarnation grows by one");
    check(actor.call<&Phoenix::add>().get(20s) == 11, "its constructor runs again, with its arguments");
    const int64_t pid = actor.call<&Phoenix::pid>().get(20s);
    check(pid != before, "its life before ended with its process");
    before = pid;
    const std::string begun = "/tmp/rayo-lives-" + std::to_string(pid);
    auto under_way = actor.call<&Phoenix::hang>(begun);
    while (!std::filesystem::remove(begun)) std::this_thread::yield();
    rayo::kill(actor, {.no_restart = false});
    try {
      under_way.get(20s);
      check(false, "a call under way ends with the life");
    } catch (const rayo::ActorDied& died) {
      check(died.death() != nullptr && died.death()->kind == rayo::DeathKind::kKilled, "the call is told the kill");
    }
  }
  try {
    actor.call<&Phoenix::add>().get(20s);
    check(false, "it came back once too often");
  } catch (const rayo::ActorDied& died) {
    check(died.death() != nullptr && died.death()->kind == rayo::DeathKind::kKilled, "its last death has a record");
  }
  return g_failed;
}

int retry() {
  auto actor = rayo::spawn<Phoenix>({.max_restarts = 1, .max_call_retries = 1}, int64_t{0});
  const auto first = static_cast<pid_t>(actor.call<&Phoenix::pid>().get(20s));
  auto under_way = actor.call<&Phoenix::sleep>(200);
  std::vector<rayo::ObjectRef<int64_t>> counts;
  for (int i = 0; i < 100; ++i) counts.push_back(actor.call<&Phoenix::add>());
  ::kill(first, SIGKILL);
  under_way.get(20s);
  for (int64_t i = 0; i < 100; ++i)
    check(counts[static_cast<size_t>(i)].get(20s) == i + 1, "each ran in the next life, in order");
  const auto second = static_cast<pid_t>(actor.call<&Phoenix::pid>().get(20s));
  check(second != first, "it is another process");
  auto last = actor.call<&Phoenix::sleep>(30'000);
  ::kill(second, SIGKILL);
  try {
    last.get(20s);
    check(false, "there is no third life");
  } catch (const rayo::ActorDied& died) {
    check(died.death() && died.death()->signal == SIGKILL, "its last death has a record");
  }
  return g_failed;
}

const rayo::ActorOptions kPhoenix{.name = "phoenix", .max_restarts = 1, .lifetime = rayo::Lifetime::kDetached};

int detach_large() {
  try {
    rayo::spawn<Shelf>(kPhoenix, rayo::put(std::string(200'000, 'x')));
  } catch (const rayo::Invalid& refused) {
    std::printf("%s\n", refused.text().c_str());
    return 0;
  }
  return 1;
}

int overflow() {
  auto deep = rayo::spawn<Deep>({.max_concurrency = 2, .stack_size = 1 << 20});
  check(deep.call<&Deep::dive>(100).get(20s) == 100, "what fits runs");
  try {
    deep.call<&Deep::dive>(1000).get(20s);
    check(false, "4 MiB of frames fit into 1 MiB");
  } catch (const rayo::ActorDied& died) {
    check(died.death() && died.death()->signal == SIGSEGV, "it dies of the fault");
    std::printf("%s\n", died.what());
  }
  return g_failed;
}

int move() {
  const auto nodes = rayo::nodes();
  rayo::NodeId away;
  for (const rayo::NodeRecord& node : nodes)
    if (!node.head) away = node.id;
  auto actor = rayo::spawn<Phoenix>({.node = away, .node_soft = true, .max_restarts = 1}, int64_t{1});
  std::string seen;
  for (int moves = 0; moves < 2;) {
    const auto result = actor.call<&Phoenix::node>().try_get(30s);
    if (result && *result != seen) {
      seen = *result;
      ++moves;
      std::printf("%s\n", seen.c_str());
      std::fflush(stdout);
    }
    std::this_thread::sleep_for(20ms);
  }
  return 0;
}

size_t entries(const char* folder) {
  std::filesystem::directory_iterator all(folder);
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

// Of shared memory: the arena is the largest by far.
size_t shared_bytes() {
  size_t sum = 0, begin = 0, end = 0;
  char shared = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (std::sscanf(line.c_str(), "%zx-%zx %*c%*c%*c%c", &begin, &end, &shared) == 3 && shared == 's')
      sum += end - begin;
  return sum;
}

int cycles(int argc, char** argv) {
  rayo::shutdown();
  const size_t threads = entries("/proc/self/task"), files = entries("/proc/self/fd"), shared = shared_bytes();
  for (int i = 0; i < 200; ++i) {
    rayo::init(argc, argv, {.name_space = "lives"});
    check(rayo::put(std::string(1 << 20, 'x')).get().size() == 1 << 20, "a value lies in the arena");
    if (i % 20 == 0) check(rayo::spawn<Keeper>().call<&Keeper::add>().get() == 1, "an actor answers");
    rayo::shutdown();
  }
  check(entries("/proc/self/task") <= threads, "no thread is left");
  check(entries("/proc/self/fd") <= files, "no descriptor is left");
  check(shared_bytes() < shared + (8 << 20), "no arena stays mapped");
  return g_failed;
}

}  // namespace

int main(int argc, char** argv) {
  rayo::init(argc, argv, {.name_space = "lives"});
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "detach") {
    auto keeper = rayo::spawn<Keeper>({.name = "keeper", .lifetime = rayo::Lifetime::kDetached});
    std::printf("%lld\n", static_cast<long long>(keeper.call<&Keeper::add>().get()));
  } else if (what == "detach-elsewhere") {
    rayo::spawn<Keeper>({.name = "keeper",
                         .resources = {.custom = {{"elsewhere", 1}}},
                         .lifetime = rayo::Lifetime::kDetached,
                         .schedule_timeout = 0s});
  } else if (what == "detach-with-refs") {
    auto phoenix = rayo::spawn<Phoenix>(kPhoenix, rayo::put(int64_t{40}));
    std::printf("%lld\n", static_cast<long long>(phoenix.call<&Phoenix::add>().get()));
  } else if (what == "use-phoenix") {
    auto phoenix = rayo::actor<Phoenix>("phoenix");
    std::printf("%lld %lld\n", static_cast<long long>(phoenix.call<&Phoenix::pid>().get()),
                static_cast<long long>(phoenix.call<&Phoenix::add>().get()));
  } else if (what == "detach-large") {
    return detach_large();
  } else if (what == "use") {
    std::printf("%lld\n", static_cast<long long>(rayo::actor<Keeper>("keeper").call<&Keeper::add>().get()));
  } else if (what == "kill") {
    rayo::kill(rayo::actor<Keeper>("keeper"));
  } else if (what == "restart") {
    return restart();
  } else if (what == "kill-lives") {
    return kill_lives();
  } else if (what == "retry") {
    return retry();
  } else if (what == "overflow") {
    return overflow();
  } else if (what == "cycles") {
    return cycles(argc, argv);
  } else if (what == "move") {
    return move();
  }
  return 0;
}
