// Drivers that fork, drivers whose actors take time to end, and drivers that hold all that one can hold when they are killed, for tests/cluster/deaths_test.py.
//
//   cluster_ends busy [fork] NODE...   actors, tasks and objects on the nodes, made and dropped until it is killed; with
//                                      fork a child lives on (it says "child PID")
//   cluster_ends fork NODE...          a child that tries to use Rayo and ends; another one that lives on (it says "child
//                                      PID"); then the parent calls, says "good" and waits for a line on stdin
//   cluster_ends flush FOLDER NODE...  an actor on each node that takes a second to end, and then leaves a file in FOLDER; it
//                                      says "ready" and waits for a line on stdin
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fcntl.h>
#include <fstream>
#include <iostream>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <rayo/rayo.h>

namespace {

using Nodes = std::vector<rayo::NodeId>;

constexpr size_t kHeld = 4;  // actors and objects of a busy driver at a time
constexpr int64_t kLarge = 300'000;

struct Counter {
  int64_t value = 0;
  int64_t add(int64_t n) { return value += n; }
};

class Flusher {
 public:
  explicit Flusher(std::string folder) : folder_(std::move(folder)) {}
  ~Flusher() {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    std::ofstream(folder_ + "/" + std::to_string(::getpid())) << "all of it";
  }
  bool there() const { return true; }

 private:
  std::string folder_;
};

int64_t length(const std::string& text) { return static_cast<int64_t>(text.size()); }

int64_t nap(int64_t ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  return ms;
}

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

[[noreturn]] void live_on() {
  say("child " + std::to_string(::getpid()));
  ::close(STDIN_FILENO);
  ::close(STDOUT_FILENO);
  for (;;) ::pause();
}

[[noreturn]] void busy(const Nodes& nodes) {
  std::deque<rayo::ActorHandle<Counter>> actors;
  std::deque<rayo::ObjectRef<std::string>> values;
  std::deque<rayo::ObjectRef<int64_t>> results;
  for (size_t i = 0;; ++i) {
    const rayo::NodeId node = nodes[i % nodes.size()];
    const rayo::Resources little{.cpus = 0.1};
    const rayo::TaskOptions there{.resources = little, .node = node};
    actors.push_back(rayo::spawn<Counter>({.name = "busy" + std::to_string(i), .resources = little, .node = node}));
    values.push_back(rayo::put(std::string(kLarge, 'x')));
    results.push_back(actors.back().call<&Counter::add>(1));
    results.push_back(rayo::remote<length>(there, values.back()));
    results.push_back(rayo::remote<nap>(there, 20));
    if (actors.size() < kHeld) continue;
    for (int each = 0; each < 3; ++each) {
      results.front().get();
      results.pop_front();
    }
    actors.pop_front();
    values.pop_front();
  }
}

// The exit code of a child that uses what its parent has made: 0 where it was told that it cannot.
int use_in_child(std::vector<rayo::ActorHandle<Counter>> actors) {
  try {
    actors[0].call<&Counter::add>(1).get();
  } catch (const rayo::Unavailable& error) {
    return error.text().find("fork") == std::string::npos;
  }
  return 1;
}

// What the program opens once Rayo has closed its own is the program's, in a child too.
bool descriptors_stay_after_shutdown() {
  rayo::shutdown();
  std::vector<int> own;
  for (int i = 0; i < 64; ++i) own.push_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const pid_t child = ::fork();
  if (child == 0) {
    for (const int fd : own)
      if (::fcntl(fd, F_GETFD) < 0) ::_exit(1);
    ::_exit(0);
  }
  int status = -1;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

int fork_and_go_on(const Nodes& nodes) {
  std::vector<rayo::ActorHandle<Counter>> actors;
  for (const rayo::NodeId& node : nodes) actors.push_back(rayo::spawn<Counter>({.node = node}));
  for (auto& actor : actors) actor.call<&Counter::add>(1).get();
  const pid_t user = ::fork();
  if (user == 0) std::exit(use_in_child(std::move(actors)));
  int status = -1;
  if (::waitpid(user, &status, 0) != user || status != 0) return 1;
  if (::fork() == 0) live_on();
  for (int64_t n = 2; n <= 1000; ++n)
    for (auto& actor : actors)
      if (actor.call<&Counter::add>(1).get() != n) return 1;
  actors.push_back(rayo::spawn<Counter>());
  if (actors.back().call<&Counter::add>(7).get() != 7) return 1;
  if (rayo::remote<length>(rayo::put(std::string(kLarge, 'x'))).get() != kLarge) return 1;
  say("good");
  std::string word;
  std::getline(std::cin, word);
  return descriptors_stay_after_shutdown() ? 0 : 1;
}

int flush_at_the_end(const std::string& folder, const Nodes& nodes) {
  std::vector<rayo::ActorHandle<Flusher>> actors;
  for (const rayo::NodeId& node : nodes) actors.push_back(rayo::spawn<Flusher>({.node = node}, folder));
  for (auto& actor : actors) actor.call<&Flusher::there>().get();
  say("ready");
  std::string word;
  std::getline(std::cin, word);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  rayo::init(argc, argv);
  const std::string what = argc > 1 ? argv[1] : "";
  const bool forks = argc > 2 && std::string(argv[2]) == "fork";
  const bool flushes = what == "flush" && argc > 3;
  Nodes nodes;
  for (int i = forks || flushes ? 3 : 2; i < argc; ++i) nodes.push_back(rayo::NodeId::from_hex(argv[i]).value());
  if (what == "fork" && !nodes.empty()) return fork_and_go_on(nodes);
  if (flushes) return flush_at_the_end(argv[2], nodes);
  if (what != "busy" || nodes.empty()) {
    std::fprintf(stderr, "usage: see the first lines of ends.cc\n");
    return 2;
  }
  if (forks && ::fork() == 0) live_on();
  busy(nodes);
}
