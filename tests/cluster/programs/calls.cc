// Every way of calling, once, on whatever cluster it finds: one line a check that failed, exit code 1 if any did.
//
//   cluster_calls            (RAYO_ADDRESS and RAYO_TOKEN of another home make it a remote driver)
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

#include <rayo/rayo.h>

namespace {

using Numbers = std::vector<int64_t>;

struct Counter {
  int64_t value = 0;
  rayo::ObjectRef<int64_t> kept{};
  int64_t add(int64_t n) { return value += n; }
  Numbers many(int64_t count) { return Numbers(static_cast<size_t>(count), 7); }
  int64_t sum(const Numbers& numbers) { return std::accumulate(numbers.begin(), numbers.end(), int64_t{0}); }
  void fail() { throw std::runtime_error("broken on purpose"); }
  void die() {
    std::printf("last words\n");
    std::abort();
  }
  int64_t through(rayo::ActorHandle<Counter> other, int64_t n) { return other.call<&Counter::add>(n).get() + 1; }
  int64_t call_self(rayo::ActorHandle<Counter> self) { return self.call<&Counter::add>(1).get(); }
  std::vector<rayo::ObjectRef<int64_t>> wrap(int64_t n) { return {rayo::put(n)}; }
  std::vector<rayo::ObjectRef<Numbers>> wrap_large(int64_t count) { return {rayo::put(many(count))}; }
  void keep(std::vector<rayo::ObjectRef<int64_t>> refs) { kept = refs.at(0); }
  int64_t use_kept() { return kept.get(); }
  std::string node() { return rayo::context().node.hex(); }
};

int64_t sum(const Numbers& numbers) { return std::accumulate(numbers.begin(), numbers.end(), int64_t{0}); }
int64_t nested(int64_t n) { return n <= 0 ? 1 : 2 * rayo::remote<nested>(n - 1).get(); }

int64_t answer_or_die(int64_t n) {
  if (n < 0) std::abort();
  return n;
}

int g_failed = 0;

void check(bool holds, const char* what) {
  if (holds) return;
  std::printf("FAILED: %s\n", what);
  ++g_failed;
}

template <class Expected, class Code>
std::string thrown(Code code, const char* what) {
  try {
    code();
  } catch (const Expected& error) {
    return error.what();
  } catch (const std::exception& error) {
    std::printf("got: %s\n", error.what());
  }
  check(false, what);
  return {};
}

void calls(const rayo::NodeRecord& node) {
  auto one = rayo::spawn<Counter>({.node = node.id});
  auto other = rayo::spawn<Counter>();
  check(one.call<&Counter::node>().get() == node.id.hex(), "an actor lives on the node that was asked for");
  check(one.call<&Counter::add>(3).get() == 3, "a call");
  check(one.call<&Counter::through>(other, 5).get() == 6, "a nested call by a handle that was passed");
  auto many = one.call<&Counter::many>(300'000);
  check(many.get().size() == 300'000, "a large result");
  check(other.call<&Counter::sum>(many).get() == 2'100'000, "a large result as an argument of another actor");
  auto made = rayo::put(Numbers(200'000, 2));
  check(one.call<&Counter::sum>(made).get() == 400'000, "a large value that was put");
  check(rayo::remote<sum>(made).get() == 400'000, "and as an argument of a task");
  check(one.call<&Counter::wrap>(41).get().at(0).get() == 41, "a ref inside a result");
  check(one.call<&Counter::wrap_large>(5'000'000).get().at(0).get() == Numbers(5'000'000, 7),
        "a large value of another process, by the ref inside a result");
  {
    std::vector<rayo::ObjectRef<int64_t>> refs = {rayo::put(int64_t{43})};
    one.call<&Counter::keep>(refs).get();
  }
  check(one.call<&Counter::use_kept>().get() == 43, "a ref inside an argument outlives the call that brought it");
  std::vector<rayo::ObjectRef<int64_t>> sums;
  for (int i = 0; i < 2'000; ++i) sums.push_back(other.call<&Counter::add>(1));
  for (int i = 0; i < 2'000; ++i)
    if (sums[static_cast<size_t>(i)].get() != 5 + i + 1)
      return check(false, "calls start in the order in which they are made");
  const std::string text = thrown<rayo::TaskError>([&] { one.call<&Counter::fail>().get(); }, "what a method throws");
  check(text.find("broken on purpose") != std::string::npos, "the message of what was thrown");
  const std::string cycle =
      thrown<rayo::Error>([&] { one.call<&Counter::call_self>(one).get(); }, "a call that waits for itself");
  check(cycle.find("waits for itself") != std::string::npos, "the cycle is named");
  thrown<rayo::ActorDied>([&] { one.call<&Counter::die>().get(); }, "a death reaches the call that met it");
  thrown<rayo::ActorDied>([&] { one.call<&Counter::add>(1).get(); }, "and every later call");
  rayo::kill(other);
  thrown<rayo::ActorDied>([&] { other.call<&Counter::add>(1).get(); }, "a call after kill");
}

// Short ones are sent to a worker before it has ended the ones before: those of one that dies run elsewhere.
void tasks(const rayo::NodeRecord& node) {
  const rayo::TaskOptions there{.node = node.id};
  for (int round = 0; round < 3; ++round) {
    std::vector<rayo::ObjectRef<int64_t>> results;
    for (int64_t n = 0; n < 500; ++n) results.push_back(rayo::remote<answer_or_die>(there, n % 200 == 150 ? -1 : n));
    for (int64_t n = 0; n < 500; ++n) {
      rayo::ObjectRef<int64_t>& result = results[static_cast<size_t>(n)];
      if (n % 200 == 150)
        thrown<rayo::TaskError>([&] { result.get(); }, "a task that ends its worker");
      else if (const auto got = result.try_get(); !got || *got != n)
        return check(false, "a task beside one that ends its worker");
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  rayo::init(argc, argv);
  const auto nodes = rayo::nodes();
  for (const rayo::NodeRecord& node : nodes) {
    calls(node);
    tasks(node);
  }
  auto named = rayo::spawn<Counter>({.name = "named"});
  check(named.call<&Counter::add>(9).get() == 9, "a named actor");
  check(rayo::actor<Counter>("named").call<&Counter::add>(0).get() == 9, "found by its name");
  thrown<rayo::Invalid>([] { rayo::spawn<Counter>({.name = "named"}); }, "a name is given once");
  check(rayo::remote<nested>(4).get() == 16, "tasks that wait for tasks lend their CPU");
  std::printf("%zu nodes, %s, %d failed\n", nodes.size(), rayo::context().remote ? "remote" : "local", g_failed);
  return g_failed != 0;
}
