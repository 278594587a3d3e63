// A seeded mix of calls, tasks, nested tasks and objects for chaos_test.py, which kills processes and nodes meanwhile.
// Each get ends within a minute, with the right value or with the error of a death; anything else is a line and exit
// code 1.
//
//   cluster_chaos SEED SECONDS
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <rayo/rayo.h>

namespace {

using Numbers = std::vector<int64_t>;
using SteadyClock = std::chrono::steady_clock;
constexpr std::chrono::seconds kEveryGetEndsWithin{60};
constexpr size_t kLedgers = 5;

struct Ledger {
  int64_t sum = 0;
  int64_t add(int64_t n) { return sum += n; }
  int64_t total_of(const Numbers& numbers) { return std::accumulate(numbers.begin(), numbers.end(), int64_t{0}); }
  int64_t through(rayo::ActorHandle<Ledger> other, int64_t n) {
    return other.call<&Ledger::total_of>(Numbers(3, n)).get();
  }
};

int64_t leaves(int64_t depth) {
  if (depth == 0) return 1;
  auto left = rayo::remote<leaves>(depth - 1);
  auto right = rayo::remote<leaves>(depth - 1);
  return left.get() + right.get();
}

Numbers repeat(int64_t value, int64_t count) { return Numbers(static_cast<size_t>(count), value); }

// What somebody's death may bring, at the place itself or through a call that met it.
bool tells_a_death(const rayo::ErrorRecord& error) {
  using enum rayo::ErrorKind;
  if (error.kind == kActorDied || error.kind == kTaskSystem || error.kind == kObjectLost) return true;
  if (error.kind != kTask) return false;
  for (const char* type : {"ActorDied", "TaskError", "ObjectLost"})
    if (error.remote_type.find(type) != std::string::npos) return true;
  return false;
}

class Chaos {
 public:
  explicit Chaos(uint64_t seed) : random_(seed) {}

  // The number of wrong outcomes.
  int run(SteadyClock::time_point end) {
    while (SteadyClock::now() < end) step();
    std::printf("%lld answers, %lld errors of deaths, %d wrong\n", static_cast<long long>(answers_),
                static_cast<long long>(errors_), wrong_);
    return wrong_;
  }

 private:
  struct Known {
    rayo::ActorHandle<Ledger> actor;
    int64_t sum = 0;  // what it has added up so far
  };

  int64_t dice(int64_t sides) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(sides)); }

  void wrong(const char* what, const std::string& how) {
    std::printf("WRONG: %s: %s\n", what, how.c_str());
    std::fflush(stdout);
    ++wrong_;
  }

  // Whether the right value came.
  template <class T>
  bool expect(const rayo::ObjectRef<T>& ref, const T& right, const char* what) {
    auto result = ref.try_get(kEveryGetEndsWithin);
    if (result) {
      ++answers_;
      if (*result != right) wrong(what, "another value than was asked for");
      return *result == right;
    }
    ++errors_;
    if (!tells_a_death(result.error())) wrong(what, result.error().text);
    return false;
  }

  void step() {
    if (ledgers_.size() < kLedgers) {
      ledgers_.push_back({rayo::spawn<Ledger>({.resources = {.cpus = 0.1}})});
      return;
    }
    const size_t which = static_cast<size_t>(dice(kLedgers));
    Known& known = ledgers_[which];
    const int64_t n = dice(1000);
    bool lives = true;
    switch (dice(7)) {
      case 0:
        lives = adds(known);
        break;
      case 1: {  // a value of the arena, from the driver to an actor
        auto numbers = rayo::put(repeat(n, 50'000));
        lives = expect(known.actor.call<&Ledger::total_of>(numbers), n * 50'000, "a large argument");
        break;
      }
      case 2: {  // a task's result, unseen by the driver, as an actor's argument
        auto made = rayo::remote<repeat>(n, int64_t{40'000});
        lives = expect(known.actor.call<&Ledger::total_of>(made), n * 40'000, "a task's result as an argument");
        break;
      }
      case 3: {
        const auto& other = ledgers_[(which + 1) % kLedgers].actor;
        lives = expect(known.actor.call<&Ledger::through>(other, n), n * 3, "a call through another actor");
        break;
      }
      case 4: {
        const int64_t depth = dice(4);
        expect(rayo::remote<leaves>(depth), int64_t{1} << depth, "nested tasks");
        break;
      }
      case 5:
        tasks_at_once(n);
        break;
      default:
        if (dice(10) == 0) {
          rayo::kill(known.actor);
          lives = false;
        }
    }
    if (!lives) ledgers_.erase(ledgers_.begin() + static_cast<ptrdiff_t>(which));
  }

  // Calls in flight together start in order: each sees those before it.
  bool adds(Known& known) {
    std::vector<rayo::ObjectRef<int64_t>> sums;
    std::vector<int64_t> right;
    for (int i = 0; i < 200; ++i) {
      sums.push_back(known.actor.call<&Ledger::add>(int64_t{i}));
      right.push_back(known.sum += i);
    }
    for (size_t i = 0; i < sums.size(); ++i)
      if (!expect(sums[i], right[i], "calls in order")) return false;
    return true;
  }

  void tasks_at_once(int64_t n) {
    std::vector<rayo::ObjectRef<Numbers>> refs;
    for (int64_t i = 0; i < 12; ++i) refs.push_back(rayo::remote<repeat>(n + i, int64_t{100}));
    for (int64_t i = 0; i < 12; ++i) expect(refs[static_cast<size_t>(i)], repeat(n + i, 100), "tasks at once");
  }

  std::mt19937_64 random_;
  std::vector<Known> ledgers_;
  int64_t answers_ = 0;
  int64_t errors_ = 0;
  int wrong_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  rayo::init(argc, argv);
  if (argc != 3) return std::fprintf(stderr, "usage: cluster_chaos SEED SECONDS\n"), 2;
  Chaos chaos(std::strtoull(argv[1], nullptr, 10));
  return chaos.run(SteadyClock::now() + std::chrono::seconds(std::atoi(argv[2]))) != 0;
}
