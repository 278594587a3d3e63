// If this fails, a user's unit tests on init({.in_process = true}) behave unlike a cluster: calls out of
// order, errors without their reason, waits that never end.
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <rayo/rayo.h>

#include "tests/runtime/api/backends.h"

using namespace std::chrono_literals;

namespace {

struct Counter {
  int64_t value = 0;
  int64_t add(int64_t n) { return value += n; }
  int64_t get() const { return value; }
  void fail(const std::string& why) { throw std::out_of_range(why); }
  std::string self() { return rayo::context().actor.hex(); }
};

struct Log {
  std::vector<int> seen;
  void note(int n) { seen.push_back(n); }
  std::vector<int> all() { return seen; }
};

struct Fragile {
  explicit Fragile(int n) {
    if (n < 0) throw std::invalid_argument("negative");
  }
  int ok() { return 1; }
};

// Calls itself through its handle.
struct Looper {
  rayo::ActorHandle<Looper> me;
  void meet(rayo::ActorHandle<Looper> self) { me = std::move(self); }
  int one() { return 1; }
  int wait_for_self() { return me.call<&Looper::one>().get() + 1; }
  rayo::ObjectRef<int> promise() { return me.call<&Looper::one>(); }
};

struct Pinger {
  int ping(rayo::ActorHandle<Looper> other) { return other.call<&Looper::one>().get(); }
};

// What happens inside of a task or actor; "": nothing.
template <class F>
std::string refusal(F&& code) {
  try {
    code();
    return "";
  } catch (const rayo::Invalid& error) {
    return error.text();
  }
}
std::string init_again(bool in_process) {
  return refusal([&] { rayo::init({.in_process = in_process}); });
}
std::string shut_down() {
  return refusal([] { rayo::shutdown(); });
}
struct Ender {
  std::string shut_down() { return ::shut_down(); }
  void end_process() { std::exit(3); }
};

double half(double x) { return x / 2; }
int64_t sum(const std::vector<int64_t>& numbers) {
  int64_t total = 0;
  for (int64_t n : numbers) total += n;
  return total;
}
int fib(int n) {
  if (n < 2) return n;
  auto a = rayo::remote<fib>(n - 1);
  auto b = rayo::remote<fib>(n - 2);
  return a.get() + b.get();
}
int slow(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  return ms;
}
int broken(int n) { throw std::runtime_error("broken " + std::to_string(n)); }
int let_through() { return rayo::remote<broken>(7).get(); }
size_t length(std::string_view text) { return text.size(); }
int64_t count_with(rayo::ActorHandle<Counter> counter, int64_t n) { return counter.call<&Counter::add>(n).get(); }
rayo::ObjectRef<std::string> make_inner() { return rayo::put(std::string("inner")); }
struct Bag {
  std::vector<rayo::ObjectRef<std::string>> refs;
  std::string name;
};
Bag make_bag(int n) {
  Bag bag{.name = "bag"};
  for (int i = 0; i < n; ++i) bag.refs.push_back(rayo::put(std::to_string(i)));
  return bag;
}
std::string open_bag(const Bag& bag) {
  std::string all = bag.name;
  for (const auto& ref : bag.refs) all += ref.get();
  return all;
}

TEST_F(ApiTest, TheProgramOfTheDesignRuns) {
  auto counter = rayo::spawn<Counter>({.name = "hits", .resources = {.cpus = 0.5}, .max_restarts = 3});
  rayo::ObjectRef<int64_t> hits = counter.call<&Counter::add>(3);
  rayo::ObjectRef<double> h = rayo::remote<half>(hits);
  EXPECT_EQ(h.get(), 1.5);
  EXPECT_EQ(rayo::actor<Counter>("hits").call<&Counter::get>().get(), 3);
}

TEST_F(ApiTest, CallsStartInTheOrderTheyWereMade) {
  auto log = rayo::spawn<Log>();
  auto late = rayo::remote<slow>(30);
  log.call<&Log::note>(late);  // its argument is not there yet; the others wait for it
  std::vector<int> expected{30};
  for (int i = 0; i < 200; ++i) {
    log.call<&Log::note>(i);
    expected.push_back(i);
  }
  EXPECT_EQ(log.call<&Log::all>().get(), expected);
}

TEST_F(ApiTest, AThrowArrivesWithTypeMessageAndStack) {
  auto counter = rayo::spawn<Counter>();
  auto failed = counter.call<&Counter::fail>("too far");
  try {
    failed.get();
    FAIL() << "nothing was thrown";
  } catch (const rayo::TaskError& error) {
    EXPECT_EQ(error.remote_type(), "std::out_of_range");
    EXPECT_NE(error.text().find("too far"), std::string::npos) << error.text();
    EXPECT_NE(error.text().find("Counter::fail"), std::string::npos) << error.text();
    EXPECT_NE(error.stack().find("Counter::fail"), std::string::npos) << error.stack();
    EXPECT_FALSE(error.system());
  }
  EXPECT_EQ(counter.call<&Counter::add>(1).get(), 1) << "the actor lives on";
}

TEST_F(ApiTest, AnErrorPassesThroughRefsAndTasks) {
  auto direct = rayo::remote<half>(rayo::remote<broken>(3)).try_get();
  ASSERT_FALSE(direct);
  EXPECT_EQ(direct.error().kind, rayo::ErrorKind::kTask);
  EXPECT_EQ(direct.error().remote_type, "std::runtime_error");
  EXPECT_NE(direct.error().text.find("broken 3"), std::string::npos);
  auto through = rayo::remote<let_through>().try_get();
  ASSERT_FALSE(through);
  EXPECT_EQ(through.error().remote_type, "std::runtime_error");
  EXPECT_NE(through.error().text.find("let_through"), std::string::npos) << through.error().text;
}

TEST_F(ApiTest, TimeoutsEndTheWaitAndNotTheCall) {
  auto ref = rayo::remote<slow>(200);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(ref.get(5ms), rayo::Timeout);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 150ms);
  EXPECT_FALSE(ref.ready());
  auto result = ref.try_get(1ms);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, rayo::ErrorKind::kTimeout);
  EXPECT_EQ(ref.get(), 200);
  EXPECT_EQ(ref.get(0ms), 200);
}

TEST_F(ApiTest, NestedTasksDoNotRunOutOfPlaces) {
  // On a cluster each task that waits keeps a process.
  EXPECT_EQ(rayo::remote<fib>(on_cluster() ? 5 : 12).get(), on_cluster() ? 5 : 144);
}

TEST_F(ApiTest, RefsAndHandlesTravelInsideValues) {
  auto bag = rayo::remote<make_bag>(3);
  EXPECT_EQ(rayo::remote<open_bag>(bag).get(), "bag012");
  EXPECT_EQ(open_bag(bag.get()), "bag012");
  EXPECT_EQ(rayo::remote<make_inner>().get().get(), "inner");
  auto counter = rayo::spawn<Counter>();
  EXPECT_EQ(rayo::remote<count_with>(counter, 5).get(), 5);
  EXPECT_EQ(rayo::remote<length>("four").get(), 4u);
  EXPECT_EQ(rayo::remote<length>(rayo::put(std::string("five5"))).get(), 5u);
  EXPECT_EQ(rayo::remote<sum>(rayo::put(std::vector<int64_t>{1, 2, 3})).get(), 6);
}

// If it fails, a handle that is passed on right after spawn reaches its receiver before the control store knows the actor,
// which is then told that there is no such actor.
TEST_F(ApiTest, AHandleMayBePassedOnAtOnce) {
  for (int i = 0; i < 20; ++i) EXPECT_EQ(rayo::remote<count_with>(rayo::spawn<Counter>(), 5).get(), 5);
}

TEST_F(ApiTest, WaitTellsReadyFromPending) {
  std::vector<rayo::ObjectRef<int>> refs{rayo::remote<slow>(300), rayo::put(1), rayo::put(2)};
  auto [ready, pending] = rayo::wait(refs, 2);
  ASSERT_EQ(ready.size(), 2u);
  EXPECT_EQ(ready[0].get(), 1);
  ASSERT_EQ(pending.size(), 1u);
  auto all = rayo::wait(refs, 3, 1ms);
  EXPECT_EQ(all.pending.size(), 1u);
  EXPECT_EQ(rayo::get(refs), (std::vector<int>{300, 1, 2}));
  EXPECT_TRUE(rayo::wait(std::vector<rayo::ObjectRef<int>>{}).ready.empty());
}

TEST_F(ApiTest, NamesBelongToOneLivingActor) {
  auto first = rayo::spawn<Counter>({.name = "only"});
  EXPECT_THROW(rayo::spawn<Counter>({.name = "only"}), rayo::Invalid);
  auto again = rayo::spawn<Counter>({.name = "only", .get_if_exists = true});
  EXPECT_EQ(again, first);
  EXPECT_THROW(rayo::actor<Log>("only"), rayo::TypeMismatch);
  EXPECT_THROW(rayo::actor<Counter>("other"), rayo::Invalid);
  EXPECT_THROW(rayo::actor<Counter>("only", "elsewhere"), rayo::Invalid);
  rayo::kill(first);
  auto next = rayo::spawn<Counter>({.name = "only"});
  EXPECT_NE(next, first);
}

TEST_F(ApiTest, KillEndsRunningAndWaitingCalls) {
  auto looper = rayo::spawn<Looper>();
  looper.call<&Looper::meet>(looper).get();
  auto counter = rayo::spawn<Counter>();
  auto blocked = counter.call<&Counter::add>(rayo::remote<slow>(100));
  auto behind = counter.call<&Counter::get>();
  rayo::kill(counter);
  for (auto* ref : {&blocked, &behind}) {
    try {
      ref->get();
      FAIL() << "nothing was thrown";
    } catch (const rayo::ActorDied& died) {
      ASSERT_NE(died.death(), nullptr);
      EXPECT_EQ(died.death()->kind, rayo::DeathKind::kKilled);
    }
  }
  EXPECT_THROW(counter.call<&Counter::get>().get(), rayo::ActorDied);
}

TEST_F(ApiTest, AnActorTakesNoMoreCallsThanItsLimit) {
  auto counter = rayo::spawn<Counter>({.max_pending_calls = 2});
  auto first = counter.call<&Counter::add>(rayo::remote<slow>(200));
  auto second = counter.call<&Counter::add>(1);
  EXPECT_THROW(counter.call<&Counter::add>(1), rayo::Backpressure);
  EXPECT_EQ(second.get() - first.get(), 1);
  counter.call<&Counter::add>(1).get();
  EXPECT_THROW(rayo::spawn<Counter>({.max_pending_calls = -1}), rayo::Invalid);
  EXPECT_THROW(rayo::remote<half>({.max_retries = -2}, 1.0), rayo::Invalid);
}

TEST_F(ApiTest, AConstructorThatThrowsIsNamedToCallers) {
  auto fragile = rayo::spawn<Fragile>(-1);
  try {
    fragile.call<&Fragile::ok>().get();
    FAIL() << "nothing was thrown";
  } catch (const rayo::ActorDied& died) {
    ASSERT_NE(died.death(), nullptr);
    EXPECT_EQ(died.death()->kind, rayo::DeathKind::kStartFailed);
    EXPECT_NE(died.text().find("negative"), std::string::npos) << died.text();
  }
  EXPECT_EQ(rayo::spawn<Fragile>(rayo::put(2)).call<&Fragile::ok>().get(), 1) << "a ref stands for its value";
}

TEST_F(ApiTest, WaitingForOneselfIsADeadlockError) {
  auto looper = rayo::spawn<Looper>();
  looper.call<&Looper::meet>(looper).get();
  auto result = looper.call<&Looper::wait_for_self>().try_get(10s);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().text.find("Deadlock"), std::string::npos) << result.error().text;
  EXPECT_NE(result.error().text.find("Looper"), std::string::npos) << result.error().text;
  EXPECT_EQ(looper.call<&Looper::promise>().get().get(), 1) << "a promise instead of a wait is fine";
  auto pinger = rayo::spawn<Pinger>();
  EXPECT_EQ(pinger.call<&Pinger::ping>(looper).get(), 1);
  rayo::kill(looper);  // it holds a handle of itself
}

TEST_F(ApiTest, ContextAndNodesTellWhereCodeRuns) {
  EXPECT_EQ(rayo::context().in_process, !on_cluster());
  EXPECT_FALSE(rayo::context().actor);
  auto counter = rayo::spawn<Counter>();
  EXPECT_EQ(counter.call<&Counter::self>().get(), counter.id().hex());
  ASSERT_EQ(rayo::nodes().size(), 1u);
  EXPECT_GE(rayo::available_resources().at("cpu"), 1.0);
  EXPECT_EQ(rayo::blocking([] { return 3; }), 3);
}

TEST_F(ApiTest, AnActorEndsWithItsLastHandleAfterItsCalls) {
  rayo::ObjectRef<int64_t> last;
  {
    auto counter = rayo::spawn<Counter>({.name = "brief"});
    counter.call<&Counter::add>(rayo::remote<slow>(20));
    last = counter.call<&Counter::add>(1);
  }
  EXPECT_EQ(last.get(), 21);
  const auto end = std::chrono::steady_clock::now() + 5s;
  while (true) {
    try {
      rayo::actor<Counter>("brief");
    } catch (const rayo::Invalid&) {
      break;
    }
    ASSERT_LT(std::chrono::steady_clock::now(), end) << "the name is still taken";
    std::this_thread::yield();
  }
}

TEST_F(ApiTest, ManyThreadsOfTheUserMayCall) {
  auto counter = rayo::spawn<Counter>();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&counter] {
      for (int i = 0; i < 200; ++i) counter.call<&Counter::add>(rayo::remote<half>(2.0).get() > 0 ? 1 : 0).get();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter.call<&Counter::get>().get(), 800);
}

TEST(InProcessSessionTest, ASecondInitWorksAndOldRefsAreRefused) {
  EXPECT_THROW(rayo::put(1), rayo::Unavailable);
  rayo::init({.in_process = true});
  EXPECT_THROW(rayo::init({.in_process = true}), rayo::Invalid);
  rayo::ObjectRef<int> old = rayo::put(1);
  auto counter = rayo::spawn<Counter>();
  rayo::shutdown();
  EXPECT_FALSE(rayo::is_initialized());
  rayo::init({.in_process = true});
  rayo::ObjectRef<int> copy = old;
  EXPECT_THROW(copy.get(), rayo::Unavailable);
  EXPECT_THROW(counter.call<&Counter::get>(), rayo::Unavailable);
  EXPECT_THROW(rayo::ObjectRef<int>().get(), rayo::Invalid);
  EXPECT_EQ(rayo::put(2).get(), 2);
  rayo::shutdown();
  rayo::shutdown();
}

TEST(InProcessSessionTest, AChildOfForkIsToldSo) {
  rayo::init({.in_process = true});
  rayo::ObjectRef<int> ref = rayo::put(1);
  const pid_t child = fork();
  if (child == 0) {
    int told = 0;
    try {
      ref.get();
    } catch (const rayo::Unavailable& error) {
      told = error.text().find("fork") != std::string::npos;
    }
    ref = {};
    _exit(told);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
  rayo::shutdown();
}

// What two source files do to each other when both have a `static int f()`.
TEST(InProcessSessionTest, TwoFunctionsOfOneIdentityEndInit) {
  const pid_t child = fork();  // the registry only grows
  if (child == 0) {
    static rayo::internal::Function first{
        .id = 7, .mangled = "TaskTagIXadL_ZL1fvEEE", .name = "f", .invoke = [](rayo::internal::Invocation&) {}};
    static rayo::internal::Function second = first;
    second.invoke = [](rayo::internal::Invocation& call) { call.self = nullptr; };
    rayo::internal::register_function(first);
    rayo::internal::register_function(second);
    int told = 0;
    try {
      rayo::init({.in_process = true});
    } catch (const rayo::Invalid& error) {
      told = error.text().find("f, which two files") != std::string::npos;
    }
    _exit(told);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

TEST_F(ApiTest, InitInsideOfATaskIsRefusedAndChangesNothing) {
  for (const bool in_process : {true, false})
    EXPECT_NE(rayo::remote<init_again>(in_process).get().find("rayo::init was called"), std::string::npos);
  EXPECT_EQ(rayo::remote<half>(rayo::put(4.0)).get(), 2);
}

// It would wait for itself.
TEST(InProcessSessionTest, ShutdownInsideOfAnActorOrTaskIsRefused) {
  rayo::init({.in_process = true});
  EXPECT_NE(rayo::remote<shut_down>().get().find("inside of an actor or task"), std::string::npos);
  auto ender = rayo::spawn<Ender>();
  EXPECT_NE(ender.call<&Ender::shut_down>().get().find("inside of an actor or task"), std::string::npos);
  rayo::shutdown();
}

TEST(InProcessSessionTest, AnActorMayEndTheProcess) {
  const auto run = [] {
    rayo::init({.in_process = true});
    rayo::spawn<Ender>().call<&Ender::end_process>().get();
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(3), "");
}

// What it waits for is there until it has seen that the session has ended.
TEST(InProcessSessionTest, ShutdownWaitsForAThreadThatReadsAStream) {
  rayo::init({.in_process = true});
  auto [writer, stream] = rayo::make_stream<int>();
  std::atomic<pid_t> id{0};
  std::thread reader([&, &items = stream] {
    id = ::gettid();
    EXPECT_THROW(items.next(), rayo::Unavailable);
  });
  const auto sleeps = [&] {
    std::ifstream file("/proc/self/task/" + std::to_string(id.load()) + "/stat");
    std::string number, name, state;
    return (file >> number >> name >> state) && state == "S";
  };
  EXPECT_TRUE(soon([&] { return id.load() != 0 && sleeps(); }));
  rayo::shutdown();
  reader.join();
}

TEST(InProcessSessionTest, ShutdownEndsWhatWaits) {
  rayo::init({.in_process = true});
  auto counter = rayo::spawn<Counter>();
  auto never = counter.call<&Counter::add>(rayo::remote<slow>(50));
  std::thread waiter([&never] { EXPECT_THROW(never.get(), rayo::Error); });
  rayo::shutdown();
  waiter.join();
}

}  // namespace

int main(int argc, char** argv) {
  if (rayo::is_worker()) rayo::init(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
