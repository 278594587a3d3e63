// The call path as a user has it: the public C++ API on a real cluster of two nodes on this machine.
//
//   actor_call_bench [SECTION...]     idle first_answer same_node two_nodes tasks busy_process small_objects creation
#include <deque>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>

#include <rayo/rayo.h>

#include "bench/harness.h"
#include "bench/local_cluster.h"
#include "bench/references.h"
#include "runtime/base/fd.h"

namespace rayo::bench {
namespace {

using namespace std::chrono_literals;

constexpr auto kSpan = 200ms;  // of one measurement of a rate
constexpr int kCalls = 5000;

// Memory that this process shares with no other, in MiB.
double private_mib() {
  std::ifstream in("/proc/self/smaps_rollup");
  double kib = 0;
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("Private_")) kib += std::atof(line.c_str() + line.find(':') + 1);
  return kib / 1024;
}

struct Echo {
  int64_t same(int64_t n) { return n; }
  // Every thread of its process.
  int64_t stay_on(int64_t core) {
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task"))
      put_on(std::stoi(thread.path().filename()), static_cast<size_t>(core));
    return core;
  }
  double memory() { return private_mib(); }
  std::vector<ObjectRef<int64_t>> make(int64_t count) {
    std::vector<ObjectRef<int64_t>> refs;
    for (int64_t i = 0; i < count; ++i) refs.push_back(put(i));
    return refs;
  }
  int64_t compute(int64_t milliseconds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    while (std::chrono::steady_clock::now() < end) {
    }
    return milliseconds;
  }
};

int64_t same(int64_t n) { return n; }
int64_t stay_on(int64_t core) { return Echo().stay_on(core); }

ActorOptions on(const std::string& node) {
  ActorOptions options;
  options.labels = {{.key = "bench", .values = {node}}};
  return options;
}

// Makes calls of its own, so that several callers run at a time.
struct Caller {
  double sync_us(ActorHandle<Echo> actor, int64_t count) {
    return p50_us(static_cast<int>(count), [&] { (void)actor.call<&Echo::same>(int64_t{1}).get(); });
  }
  double rate(ActorHandle<Echo> actor, uint64_t window);
  // From then on each of them is a peer.
  int64_t meet(std::vector<ActorHandle<Echo>> actors) {
    for (const auto& actor : actors) (void)actor.call<&Echo::same>(int64_t{0}).get();
    return static_cast<int64_t>(actors.size());
  }
};

ActorHandle<Echo> echo_on(const std::string& node) {
  auto actor = spawn<Echo>(on(node));
  actor.call<&Echo::same>(int64_t{0}).get();
  return actor;
}

double call_us(const ActorHandle<Echo>& actor, int count) {
  return p50_us(count, [&] { (void)actor.call<&Echo::same>(int64_t{1}).get(); });
}

double idle_call_us(const ActorHandle<Echo>& actor) {
  return p50_us(
      200, [] { std::this_thread::sleep_for(1ms); }, [&] { (void)actor.call<&Echo::same>(int64_t{1}).get(); });
}

// Calls per second with `window` in flight; `start` makes one.
template <class Start>
double rate(size_t window, Start&& start) {
  std::deque<ObjectRef<int64_t>> in_flight;
  uint64_t done = 0;
  const auto begin = std::chrono::steady_clock::now();
  while (seconds_since(begin) < std::chrono::duration<double>(kSpan).count()) {
    while (in_flight.size() < window) in_flight.push_back(start());
    (void)in_flight.front().get();
    for (; !in_flight.empty() && in_flight.front().ready(); in_flight.pop_front()) ++done;
  }
  const double result = static_cast<double>(done) / seconds_since(begin);
  for (; !in_flight.empty(); in_flight.pop_front()) (void)in_flight.front().get();
  return result;
}

double call_rate(const ActorHandle<Echo>& actor, size_t window) {
  return rate(window, [&] { return actor.call<&Echo::same>(int64_t{1}); });
}

double Caller::rate(ActorHandle<Echo> actor, uint64_t window) { return call_rate(actor, window); }

// Made before init: they fork, and a process of a cluster does not.
struct References {
  RawRingEcho ring;
  EventfdPingPong eventfd;
  SocketEcho unix_socket{unix_pair()};
  SocketEcho tcp{tcp_pair()};
};

template <class Reference>
void put_ends(const Ends& ends, const Reference& reference, const ActorHandle<Echo>& actor) {
  reference.stay_on(ends.there);
  (void)actor.call<&Echo::stay_on>(static_cast<int64_t>(ends.there)).get();
}

void calls_in_flight(Report& report, const std::string& name, std::pair<const char*, SocketEcho*> reference,
                     const ActorHandle<Echo>& actor, size_t window) {
  put_ends(kTwoCores, *reference.second, actor);
  report.ratio(
      {name, "calls/s", Better::kHigher, reference.first, 0.5},
      [&] { return reference.second->calls_per_second(window, kSpan); }, [&] { return call_rate(actor, window); });
}

void same_node(Report& report, References& references) {
  const OnCore here(0);
  const auto actor = echo_on("first");
  (void)actor.call<&Echo::stay_on>(int64_t{1}).get();
  report.ratio(
      {"actor_call.same_node.sync", "us", Better::kLower, "raw ring round trip", 3},
      [&] { return p50_us(kCalls, [&] { references.ring.call(); }); }, [&] { return call_us(actor, kCalls); });
  for (const Ends& ends : {kTwoCores, kOneCore}) {
    put_ends(ends, references.eventfd, actor);
    report.ratio(
        {std::string("actor_call.same_node.after_1ms_idle") + ends.suffix, "us", Better::kLower,
         "eventfd ping-pong after 1 ms", 1.5},
        [&] {
          return p50_us(
              200, [] { std::this_thread::sleep_for(1ms); }, [&] { references.eventfd.call(); });
        },
        [&] { return idle_call_us(actor); });
  }
  for (const size_t window : {size_t{64}, size_t{1000}})
    calls_in_flight(report, "actor_call.same_node.in_flight_" + std::to_string(window),
                    {"coalesced unix-socket echo", &references.unix_socket}, actor, window);
}

// Calls per second of the first `pairs` callers, each with an actor of its own, all at the same time.
double pairs_rate(const std::vector<std::pair<ActorHandle<Caller>, ActorHandle<Echo>>>& all, size_t pairs,
                  uint64_t window) {
  std::vector<ObjectRef<double>> rates;
  for (size_t i = 0; i < pairs; ++i) rates.push_back(all[i].first.call<&Caller::rate>(all[i].second, window));
  double sum = 0;
  for (const auto& rate : rates) sum += rate.get();
  return sum;
}

void several_pairs(Report& report) {
  std::vector<std::pair<ActorHandle<Caller>, ActorHandle<Echo>>> pairs;
  for (int i = 0; i < 4; ++i) pairs.emplace_back(spawn<Caller>(on("first")), echo_on("first"));
  for (const auto& [window, budget] : {std::pair{uint64_t{1}, 0.4}, {uint64_t{64}, 1.0}})
    report.ratio(
        {"actor_call.same_node.4_pairs_" + (window == 1 ? "sync" : "in_flight_" + std::to_string(window)), "calls/s",
         Better::kHigher, "one pair", budget},
        [&] { return pairs_rate(pairs, 1, window); }, [&] { return pairs_rate(pairs, 4, window); });
}

void idle_peers(Report& report) {
  const auto alone = spawn<Caller>(on("first")), crowded = spawn<Caller>(on("first"));
  std::vector<ActorHandle<Echo>> crowd;
  for (int i = 0; i < 100; ++i) crowd.push_back(spawn<Echo>(on("first")));
  (void)crowded.call<&Caller::meet>(crowd).get();
  const auto actor = echo_on("first");
  report.ratio(
      {"actor_call.same_node.100_idle_peers", "us", Better::kLower, "the same without idle peers", 1.1},
      [&] { return alone.call<&Caller::sync_us>(actor, int64_t{kCalls}).get(); },
      [&] { return crowded.call<&Caller::sync_us>(actor, int64_t{kCalls}).get(); });
}

void two_nodes(Report& report, References& references) {
  const OnCore here(0);
  const auto actor = echo_on("second");
  for (const Ends& ends : {kTwoCores, kOneCore}) {
    put_ends(ends, references.tcp, actor);
    report.ratio(
        {std::string("actor_call.two_nodes.sync") + ends.suffix, "us", Better::kLower, "raw TCP ping-pong", 1.25},
        [&] { return p50_us(2000, [&] { references.tcp.call(); }); }, [&] { return call_us(actor, 2000); });
  }
  calls_in_flight(report, "actor_call.two_nodes.in_flight_1000", {"coalesced TCP echo", &references.tcp}, actor, 1000);
}

void tasks(Report& report) {
  const OnCore here(0);
  const auto actor = echo_on("first");
  (void)actor.call<&Echo::stay_on>(static_cast<int64_t>(kTwoCores.there)).get();
  (void)remote<stay_on>(static_cast<int64_t>(kTwoCores.there)).get();  // of the worker that stays leased
  report.ratio(
      {"task.sync", "us", Better::kLower, "actor call", 2}, [&] { return call_us(actor, 1000); },
      [] { return p50_us(1000, [] { (void)remote<same>(int64_t{1}).get(); }); });
  report.ratio(
      {"task.in_flight_64", "calls/s", Better::kHigher, "actor calls in flight", 0.1},
      [&] { return call_rate(actor, 64); }, [] { return rate(64, [] { return remote<same>(int64_t{1}); }); });
}

void references_of_a_busy_process(Report& report) {
  const auto actor = echo_on("first");
  report.absolute({"reference.of_busy_process", "us", Better::kLower, "", 200}, [&] {
    auto refs = actor.call<&Echo::make>(int64_t{110}).get();
    const auto computing = actor.call<&Echo::compute>(int64_t{300});
    std::this_thread::sleep_for(20ms);
    size_t next = 0;
    const double p50 = p50_us(100, [&] { (void)refs[next++].get(); });
    (void)computing.get();
    return p50;
  });
}

void small_objects(Report& report) {
  const std::string value(100, 'v');
  report.ratio(
      {"put_and_get.100_bytes", "us", Better::kLower, "allocation and copy + 0.5 us", 2},
      [&] {
        std::optional<std::string> copy;
        return 0.5 + p50_us(kCalls, [&] { copy.emplace(value); });
      },
      [&] { return p50_us(kCalls, [&] { (void)put(value).get(); }); });
}

// fork + exit + reap in a fresh process of this program, as the zygote is one: asked for one figure at a time.
class Forker {
 public:
  explicit Forker(const std::string& program) {
    int question[2], answer[2];
    if (::pipe2(question, O_CLOEXEC) != 0 || ::pipe2(answer, O_CLOEXEC) != 0) std::abort();
    child_ = std::make_unique<Child>([&] {
      ::dup2(question[0], STDIN_FILENO);
      ::dup2(answer[1], STDOUT_FILENO);
      ::execl(program.c_str(), program.c_str(), "--forks", nullptr);
    });
    ::close(question[0]);
    ::close(answer[1]);
    ask_ = base::Fd(question[1]);
    answer_ = base::Fd(answer[0]);
  }
  double measure_us() {
    double us = 0;
    if (::write(ask_.get(), "?", 1) != 1 || ::read(answer_.get(), &us, sizeof us) != sizeof us) std::abort();
    return us;
  }
  // What --forks runs.
  static int serve() {
    for (char asked; ::read(STDIN_FILENO, &asked, 1) == 1;) {
      const double us = p50_us(20, [] {
        const pid_t child = ::fork();
        if (child == 0) ::_exit(0);
        ::waitpid(child, nullptr, 0);
      });
      if (::write(STDOUT_FILENO, &us, sizeof us) != sizeof us) return 1;
    }
    return 0;
  }

 private:
  std::unique_ptr<Child> child_;
  base::Fd ask_, answer_;
};

void create_one() { (void)echo_on("first"); }

// Warm: the program runs here and a worker of it stands ready. Many in a row outrun what is kept ready.
void creation(Report& report, Forker& forker) {
  create_one();
  report.ratio(
      {"actor.creation", "us", Better::kLower, "fork+exit of the zygote", 4}, [&] { return forker.measure_us(); },
      [] {
        return p50_us(
            10, [] { std::this_thread::sleep_for(100ms); }, create_one);
      });
  report.ratio(
      {"actor.creation.in_a_row", "us", Better::kLower, "fork+exit of the zygote", 4},
      [&] { return forker.measure_us(); }, [] { return p50_us(20, create_one); });
  const auto actor = echo_on("first");
  report.absolute({"actor.private_memory", "MiB", Better::kLower, "", 3},
                  [&] { return actor.call<&Echo::memory>().get(); });
}

// A fresh program's first answer: from its exec to the value.
double first_answer_ms(const char* program) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string command = std::string(program) + " --first-answer >/dev/null";
  if (std::system(command.c_str()) != 0) throw std::runtime_error("a fresh program got no answer");
  return seconds_since(begin) * 1e3;
}

void idle_node(Report& report, const LocalCluster& cluster) {
  std::this_thread::sleep_for(1s);
  const double before = cluster.daemon_cpu_seconds();
  std::this_thread::sleep_for(5s);
  report.single({"node.idle_with_head", "% of a core", Better::kLower, "", 0.5},
                (cluster.daemon_cpu_seconds() - before) / 5 * 100, 0);
}

// Those whose name contains one of `names`; none: all.
int run(int argc, char** argv) {
  Report report(5);
  Sections sections(argc, argv);
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  References references;
  Forker forker(program);
  LocalCluster cluster;
  report.single({"start.head", "s", Better::kLower, "", 0.7}, cluster.start_seconds(), 0);
  sections.run("idle", [&] { idle_node(report, cluster); });
  cluster.add_node();
  sections.run("first_answer", [&] {
    report.absolute({"program.first_answer", "ms", Better::kLower, "", 60},
                    [&] { return first_answer_ms(program.c_str()); });
  });
  init(argc, argv);
  sections.run("same_node", [&] { same_node(report, references); });
  sections.run("several_pairs", [&] { several_pairs(report); });
  sections.run("idle_peers", [&] { idle_peers(report); });
  sections.run("two_nodes", [&] { two_nodes(report, references); });
  sections.run("tasks", [&] { tasks(report); });
  sections.run("busy_process", [&] { references_of_a_busy_process(report); });
  sections.run("small_objects", [&] { small_objects(report); });
  sections.run("creation", [&] { creation(report, forker); });
  shutdown();
  report.print();
  return sections.failed() ? 1 : 0;
}

}  // namespace
}  // namespace rayo::bench

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "--forks") return rayo::bench::Forker::serve();
  if (!rayo::is_worker() && mode != "--first-answer") {
    try {
      return rayo::bench::run(argc, argv);
    } catch (const std::exception& error) {  // so that the cluster goes with its object
      std::fprintf(stderr, "actor_call_bench: %s\n", error.what());
      return 1;
    }
  }
  rayo::init(argc, argv);  // a worker stays here
  const auto actor = rayo::spawn<rayo::bench::Echo>();
  return static_cast<int>(actor.call<&rayo::bench::Echo::same>(int64_t{0}).get());
}
