// If these fail: calls get lost, reordered or never end; an error of an actor does not reach its caller.
#include "runtime/worker/process.h"

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <poll.h>
#include <random>
#include <thread>

#include "runtime/rpc/data_header.h"
#include "tests/runtime/worker/process_fixture.h"

namespace rayo::worker {
namespace {

using internal::CallRequest;
using internal::Function;
using internal::FunctionKind;
using internal::Invocation;
using internal::ObjectHandle;
using std::chrono::milliseconds;
using std::chrono::seconds;

// ---- the program under test ----

struct Counter {
  int64_t value = 0;
  std::vector<ObjectHandle> kept;
};

void make_counter(Invocation& call) {
  const int64_t start = load<int64_t>(call.arguments);
  if (start == -1) throw std::runtime_error("negative start");
  auto* made = new Counter;
  made->value = start;
  for (const auto& ref : call.refs) made->value += load<int64_t>(ref.bytes);
  call.constructed = made;
}
void end_counter(void* self) { delete static_cast<Counter*>(self); }
// Adds its argument, or the value of its ref; answers the sum.
void add(Invocation& call) {
  auto& self = *static_cast<Counter*>(call.self);
  int64_t amount = load<int64_t>(call.arguments);
  for (const auto& ref : call.refs) {
    if (ref.error) throw_error(*ref.error);
    amount += load<int64_t>(ref.bytes);
  }
  store(call.result, self.value += amount);
}
[[noreturn]] void fail(Invocation&) { throw std::invalid_argument("no such thing"); }
[[noreturn]] void die(Invocation&) { ::_exit(3); }
// Answers (and then dies): the answer counts.
void answer_and_die(Invocation& call) {
  store(call.result, 77);
  std::thread([] { ::usleep(20'000), ::_exit(4); }).detach();
}
// Calls `add` of the actor whose id its arguments hold, and waits for it.
void add_through(Invocation& call) {
  const auto target = load<ActorId>(call.arguments, 8);
  ObjectHandle sum = g_backend->call(target, {.function = 2, .arguments = call.arguments.first(8)});
  const Read read = get(sum);
  g_backend->release(sum);
  if (read.error) throw_error(*read.error);
  store(call.result, read.number + 1);
}
// Calls `call_back` of the other, which calls `add` of this one: waits for itself.
void go_round(Invocation& call) {
  const auto other = load<ActorId>(call.arguments, 8);
  const auto self = load<ActorId>(call.arguments, 24);
  std::vector<std::byte> arguments(8);
  arguments.insert(arguments.end(), reinterpret_cast<const std::byte*>(&self),
                   reinterpret_cast<const std::byte*>(&self + 1));
  ObjectHandle sum = g_backend->call(other, {.function = 6, .arguments = arguments});
  const Read read = get(sum);
  if (read.error) throw_error(*read.error);
  store(call.result, read.number);
}
void sleep_for(Invocation& call) {
  ::usleep(static_cast<useconds_t>(load<int64_t>(call.arguments)));
  store(call.result, 1);
}
void big(Invocation& call) { call.result->resize(static_cast<size_t>(load<int64_t>(call.arguments)), std::byte{7}); }
// Makes a ref of its own and answers it.
void give_ref(Invocation& call) {
  int64_t number = 4242;
  ObjectHandle made = put_bytes(std::as_bytes(std::span(&number, 1)));
  call.result->insert(call.result->end(), reinterpret_cast<const std::byte*>(&made.id),
                      reinterpret_cast<const std::byte*>(&made.id + 1));
  call.result_refs->push_back(made);
}
// Answers its argument at once and goes on for 20 ms.
void answer_first(Invocation& call) {
  store(call.result, load<int64_t>(call.arguments));
  call.open->answer_now();
  ::usleep(20'000);
  static_cast<Counter*>(call.self)->value = 1000;
}
// Ends its call from another thread, once its argument's milliseconds have passed.
void answer_later(Invocation& call) {
  if (!call.open->may_defer()) throw std::logic_error("one at a time");
  call.open->defer(nullptr);
  std::thread([&call] {
    ::usleep(static_cast<useconds_t>(load<int64_t>(call.arguments) * 1000));
    store(call.result, call.open->cancelled() ? -1 : load<int64_t>(call.arguments));
    call.open->finish(nullptr);
  }).detach();
}
// A ref inside a value: keeps it; `use_kept` reads it later.
void keep(Invocation& call) {
  static_cast<Counter*>(call.self)->kept.push_back(g_backend->adopt(load<ObjectId>(call.arguments)));
  store(call.result, 1);
}
void use_kept(Invocation& call) {
  const Read read = get(static_cast<Counter*>(call.self)->kept.at(0));
  if (read.error) throw_error(*read.error);
  store(call.result, read.number);
}
void twice(Invocation& call) {
  int64_t value = load<int64_t>(call.arguments);
  for (const auto& ref : call.refs) value += load<int64_t>(ref.bytes);
  store(call.result, 2 * value);
}
// Longer than this process may have to wait for a core: whoever waits for it sees that it waits.
void slowly_twice(Invocation& call) {
  ::usleep(200'000);
  twice(call);
}
// A task that waits for a task of its own.
void twice_twice(Invocation& call) {
  ObjectHandle inner = g_backend->submit({}, {.function = 24, .arguments = call.arguments});
  const Read read = get(inner);
  if (read.error) throw_error(*read.error);
  store(call.result, 2 * read.number);
}

Function g_functions[] = {
    {.id = 1, .kind = FunctionKind::kConstructor, .name = "Counter", .invoke = make_counter, .destroy = end_counter},
    {.id = 2, .kind = FunctionKind::kMethod, .name = "Counter::add", .invoke = add},
    {.id = 3, .kind = FunctionKind::kMethod, .name = "Counter::fail", .invoke = fail},
    {.id = 4, .kind = FunctionKind::kMethod, .name = "Counter::die", .invoke = die},
    {.id = 5, .kind = FunctionKind::kMethod, .name = "Counter::answer_and_die", .invoke = answer_and_die},
    {.id = 6, .kind = FunctionKind::kMethod, .name = "Counter::add_through", .invoke = add_through},
    {.id = 7, .kind = FunctionKind::kMethod, .name = "Counter::go_round", .invoke = go_round},
    {.id = 8, .kind = FunctionKind::kMethod, .name = "Counter::sleep_for", .invoke = sleep_for},
    {.id = 9, .kind = FunctionKind::kMethod, .name = "Counter::big", .invoke = big},
    {.id = 10, .kind = FunctionKind::kMethod, .name = "Counter::give_ref", .invoke = give_ref},
    {.id = 11, .kind = FunctionKind::kMethod, .name = "Counter::keep", .invoke = keep},
    {.id = 12, .kind = FunctionKind::kMethod, .name = "Counter::use_kept", .invoke = use_kept},
    {.id = 13, .kind = FunctionKind::kMethod, .name = "Counter::answer_first", .invoke = answer_first},
    {.id = 14, .kind = FunctionKind::kMethod, .name = "Counter::answer_later", .invoke = answer_later},
    {.id = 20, .kind = FunctionKind::kTask, .name = "twice", .invoke = twice},
    {.id = 21, .kind = FunctionKind::kTask, .name = "twice_twice", .invoke = twice_twice},
    {.id = 22, .kind = FunctionKind::kTask, .name = "die", .invoke = die},
    {.id = 23, .kind = FunctionKind::kTask, .name = "fail", .invoke = fail},
    {.id = 24, .kind = FunctionKind::kTask, .name = "slowly_twice", .invoke = slowly_twice},
};

// ---- the tests ----

TEST_F(ProcessTest, CallsAnActor) {
  const ActorId counter = spawn(40);
  EXPECT_EQ(get(call(counter, 2, 2)).number, 42);
  EXPECT_EQ(get(call(counter, 2, 1)).number, 43);
}

TEST_F(ProcessTest, AFloodOfCallsStartsInTheOrderInWhichItWasMade) {
  const ActorId counter = spawn(0);
  constexpr int64_t kCalls = 20'000;
  std::vector<ObjectHandle> sums;
  for (int64_t i = 1; i <= kCalls; ++i) sums.push_back(call(counter, 2, i));
  int64_t expected = 0;
  for (int64_t i = 1; i <= kCalls; ++i) {
    const Read sum = get(sums[static_cast<size_t>(i - 1)]);
    ASSERT_FALSE(sum.error) << sum.error->text;
    ASSERT_EQ(sum.number, expected += i);
    g_backend->release(sums[static_cast<size_t>(i - 1)]);
  }
}

// Generators of Python: their first answer must not wait for their end, and what comes behind must.
TEST_F(ProcessTest, ACallMayAnswerBeforeItEndsAndTheNextStillWaitsForItsEnd) {
  const ActorId counter = spawn(0);
  ObjectHandle early = call(counter, 13, 7);
  ObjectHandle behind = call(counter, 2, 1);
  EXPECT_EQ(get(early).number, 7);
  EXPECT_EQ(get(behind).number, 1001);
}

// Asyncio actors of Python: calls overlap without a stack each, and each gets its own answer.
TEST_F(ProcessTest, CallsOfAnActorWithoutStacksEndFromOtherThreads) {
  const int64_t start = 0;
  const ActorId actor = g_backend->spawn({.max_concurrency = 3, .stack_size = 0}, "Counter",
                                         {.function = 1, .arguments = std::as_bytes(std::span(&start, 1))});
  const auto begin = std::chrono::steady_clock::now();
  std::vector<ObjectHandle> calls;
  for (const int64_t wait : {300, 200, 100, 1}) calls.push_back(call(actor, 14, wait));
  EXPECT_EQ(get(calls[2]).number, 100);
  EXPECT_FALSE(g_backend->ready(calls[0]));
  EXPECT_EQ(get(calls[3]).number, 1);  // when one of the three had ended
  EXPECT_EQ(get(calls[0]).number, 300);
  EXPECT_EQ(get(calls[1]).number, 200);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(590));
  EXPECT_TRUE(get(call(spawn(0), 14, 1)).error);
}

// `await ref` of Python stands on these two.
TEST_F(ProcessTest, SomebodyIsToldThatAnObjectIsReadyAndWaitsForThat) {
  struct Told : internal::ReadyNotice {
    bool yes = false;
  } told;
  told.ready = [](internal::ReadyNotice& self) { static_cast<Told&>(self).yes = true; };
  ObjectHandle slow = call(spawn(0), 8, 30'000);
  g_backend->when_ready(slow, told);
  const auto yes = [](void* context) { return static_cast<Told*>(context)->yes; };
  EXPECT_FALSE(g_backend->wait_for(yes, &told, std::chrono::nanoseconds(0)));
  EXPECT_TRUE(g_backend->wait_for(yes, &told, seconds(20)));
  Told again;
  again.ready = told.ready;
  g_backend->when_ready(slow, again);
  EXPECT_TRUE(again.yes);
}

// Ctrl-C in Python: a wait must not sleep on while a signal's handler is due.
TEST_F(ProcessTest, AFlagEndsTheWaitsOfOneThread) {
  static std::atomic<bool> flag{false};
  g_backend->end_waits_while(&flag);
  ObjectHandle slow = call(spawn(0), 8, 400'000);
  std::thread other([] {
    ::usleep(20'000);
    flag = true;
    g_backend->interrupt();
  });
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(get(slow, seconds(20)).error.value().kind, ErrorKind::kTimeout);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(300));
  other.join();
  flag = false;
  EXPECT_EQ(get(slow).number, 1);
}

TEST_F(ProcessTest, WhatUserCodeThrowsReachesTheCaller) {
  const Read read = get(call(spawn(0), 3));
  ASSERT_TRUE(read.error);
  EXPECT_EQ(read.error->kind, ErrorKind::kTask);
  EXPECT_EQ(read.error->remote_type, "std::invalid_argument");
  EXPECT_NE(read.error->text.find("no such thing"), std::string::npos) << read.error->text;
}

TEST_F(ProcessTest, AConstructorThatThrowsFailsEveryCall) {
  const ActorId counter = spawn(-1);
  for (int i = 0; i < 2; ++i) {
    const Read read = get(call(counter, 2, 1));
    ASSERT_TRUE(read.error);
    EXPECT_NE(read.error->text.find("negative start"), std::string::npos) << read.error->text;
  }
}

TEST_F(ProcessTest, ADeathIsKnownToEveryOutstandingAndLaterCall) {
  const ActorId counter = spawn(0);
  get(call(counter, 2, 1));
  std::vector<ObjectHandle> calls = {call(counter, 4), call(counter, 2, 1), call(counter, 2, 1)};
  for (const ObjectHandle& each : calls) {
    const Read read = get(each);
    ASSERT_TRUE(read.error);
    EXPECT_EQ(read.error->kind, ErrorKind::kActorDied) << read.error->text;
    ASSERT_TRUE(read.error->death);
    EXPECT_EQ(read.error->death->kind, DeathKind::kExit);
    EXPECT_EQ(read.error->death->exit_code, 3);
  }
  EXPECT_EQ(get(call(counter, 2, 1)).error.value().kind, ErrorKind::kActorDied);
}

TEST_F(ProcessTest, ASignalIsNamed) {
  const ActorId counter = spawn(0);
  get(call(counter, 2, 1));
  ObjectHandle slow = call(counter, 8, 20'000'000);
  raylet_.kill_actor_process(counter, SIGKILL);
  const Read read = get(slow);
  ASSERT_TRUE(read.error && read.error->death);
  EXPECT_EQ(read.error->death->signal, SIGKILL);
}

TEST_F(ProcessTest, AReplySentBeforeTheDeathCounts) { EXPECT_EQ(get(call(spawn(0), 5)).number, 77); }

TEST_F(ProcessTest, KillEndsAnActor) {
  const ActorId counter = spawn(0);
  get(call(counter, 2, 1));
  g_backend->kill_actor(counter, {});
  const Read read = get(call(counter, 2, 1));
  ASSERT_TRUE(read.error && read.error->death) << (read.error ? read.error->text : "no error");
  EXPECT_EQ(read.error->death->kind, DeathKind::kKilled);
}

TEST_F(ProcessTest, CallsNest) {
  const ActorId outer = spawn(0);
  const ActorId inner = spawn(100);
  EXPECT_EQ(get(call(outer, 6, 5, {inner})).number, 106);
}

TEST_F(ProcessTest, ACallThatWaitsForItselfIsADeadlock) {
  const ActorId one = spawn(0);
  const ActorId two = spawn(0);
  const Read itself = get(call(one, 6, 1, {one}));
  ASSERT_TRUE(itself.error);
  EXPECT_NE(itself.error->text.find("waits for itself"), std::string::npos) << itself.error->text;
  const Read round = get(call(one, 7, 1, {two, one}));
  ASSERT_TRUE(round.error);
  EXPECT_NE(round.error->text.find("waits for itself"), std::string::npos) << round.error->text;
  EXPECT_EQ(get(call(one, 2, 0)).error, std::nullopt);
}

TEST_F(ProcessTest, RefsAreArguments) {
  const ActorId one = spawn(1);
  const ActorId two = spawn(10);
  ObjectHandle made = number(1000);
  EXPECT_EQ(get(g_backend->call(one, {.function = 2, .refs = {&made, 1}})).number, 1001);
  // The result of a call that is not there yet.
  ObjectHandle slow = call(one, 8, 30'000);
  ObjectHandle sum = g_backend->call(two, {.function = 2, .refs = {&slow, 1}});
  ObjectHandle after = call(two, 2, 100);
  EXPECT_EQ(get(sum).number, 11);
  EXPECT_EQ(get(after).number, 111);
  // One that fails: so does the call, and it never runs.
  ObjectHandle bad = call(one, 3);
  EXPECT_EQ(get(g_backend->call(two, {.function = 2, .refs = {&bad, 1}})).error.value().kind, ErrorKind::kTask);
  EXPECT_EQ(get(call(two, 2, 0)).number, 111);
}

TEST_F(ProcessTest, RefsInsideValuesAreKeptAlive) {
  const ActorId counter = spawn(0);
  ObjectHandle made = number(321);
  const auto* id = reinterpret_cast<const std::byte*>(&made.id);
  ObjectHandle kept =
      g_backend->call(counter, {.function = 11, .arguments = {id, sizeof made.id}, .inner_refs = {&made, 1}});
  EXPECT_EQ(get(kept).error, std::nullopt);
  EXPECT_TRUE(raylet_.holds(made.id));
  const ObjectId name = made.id;
  g_backend->release(made);
  EXPECT_EQ(get(call(counter, 12)).number, 321);
  EXPECT_TRUE(raylet_.holds(name));
}

TEST_F(ProcessTest, ARefInsideAResultIsOurs) {
  const ActorId counter = spawn(0);
  ObjectHandle answer = call(counter, 10);
  ObjectId inside;
  g_backend->get(
      answer, seconds(20),
      [](void* context, const internal::ValueView& value) {
        *static_cast<ObjectId*>(context) = load<ObjectId>(value.bytes);
      },
      &inside);
  ObjectHandle ref = g_backend->adopt(inside);
  EXPECT_EQ(get(ref).number, 4242);
  g_backend->release(ref);
}

TEST_F(ProcessTest, ALargeResultArrivesWhole) { EXPECT_EQ(get(call(spawn(0), 9, 3 << 20)).size, size_t{3} << 20); }

// Else the raylet takes what it is told for no frame of ours, and the driver's job ends.
TEST_F(ProcessTest, APutThatNoFrameCarriesIsRefusedWithTheLimit) {
  const std::vector<std::byte> large(20 << 20);
  try {
    put_bytes(large);
    ADD_FAILURE() << "it was taken";
  } catch (const Invalid& error) {
    EXPECT_NE(error.record().text.find("at most 15728640"), std::string::npos) << error.record().text;
    EXPECT_FALSE(error.record().next_step.empty());
  }
  EXPECT_EQ(get(call(spawn(0), 2, 5)).number, 5);
}

TEST_F(ProcessTest, AsManyRefsAsNoFrameNamesAreHeldAndLetGoOfAtOnce) {
  std::vector<ObjectHandle> refs;
  for (uint64_t i = 0; i < 700'000; ++i) refs.push_back(g_backend->adopt(ObjectId{1, 2, i + 1}));
  const std::vector<std::byte> value(200 << 10);  // which is asked for, and does not travel in the call
  const internal::Bytes part = value;
  ObjectHandle whole = g_backend->put({&part, 1}, refs, {});
  for (const ObjectHandle& ref : refs) g_backend->release(ref);
  const Read sum = get(g_backend->call(spawn(0), {.function = 2, .refs = {&whole, 1}}));
  EXPECT_NE(sum.error.value().text.find("700000 refs"), std::string::npos) << sum.error->text;
  g_backend->release(whole);
  EXPECT_EQ(get(call(spawn(0), 2, 5)).number, 5);
}

TEST_F(ProcessTest, AWaitEndsAtItsTime) {
  const ActorId counter = spawn(0);
  get(call(counter, 2, 1));
  ObjectHandle slow = call(counter, 8, 300'000);
  EXPECT_EQ(get(slow, milliseconds(20)).error.value().kind, ErrorKind::kTimeout);
  EXPECT_EQ(get(slow).number, 1);
  EXPECT_EQ(get(call(counter, 2, 1)).number, 2);
}

TEST_F(ProcessTest, WaitAnswersWhatIsReady) {
  const ActorId quick = spawn(0);
  const ActorId slow = spawn(0);
  get(call(slow, 2, 1));
  std::vector<ObjectHandle> objects = {call(quick, 2, 1), call(slow, 8, 400'000)};
  std::vector<bool> ready;
  EXPECT_EQ(g_backend->wait(objects, 1, seconds(20), ready), 1u);
  EXPECT_TRUE(ready[0]);
  EXPECT_EQ(g_backend->wait(objects, 2, seconds(20), ready), 2u);
}

TEST_F(ProcessTest, RunsTasks) {
  std::vector<ObjectHandle> results;
  for (int64_t i = 0; i < 200; ++i)
    results.push_back(g_backend->submit({}, {.function = 20, .arguments = std::as_bytes(std::span(&i, 1))}));
  for (int64_t i = 0; i < 200; ++i) {
    const Read read = get(results[static_cast<size_t>(i)]);
    ASSERT_FALSE(read.error) << read.error->text;
    EXPECT_EQ(read.number, 2 * i);
  }
  EXPECT_LE(raylet_.leases_granted, 2);
  ObjectHandle chained = g_backend->submit({}, {.function = 20, .refs = {&results[7], 1}});
  EXPECT_EQ(get(chained).number, 28);
  EXPECT_EQ(get(g_backend->submit({}, {.function = 23})).error.value().kind, ErrorKind::kTask);
}

TEST_F(ProcessTest, ATaskThatWaitsLendsItsCpu) {
  int64_t value = 3;
  const Read read = get(g_backend->submit({}, {.function = 21, .arguments = std::as_bytes(std::span(&value, 1))}));
  ASSERT_FALSE(read.error) << read.error->text;
  EXPECT_EQ(read.number, 12);
  EXPECT_GE(raylet_.lent, 1);
}

TEST_F(ProcessTest, ATaskWhoseWorkerEndsIsASystemError) {
  const Read read = get(g_backend->submit({.max_retries = 1}, {.function = 22}));
  ASSERT_TRUE(read.error);
  EXPECT_EQ(read.error->kind, ErrorKind::kTaskSystem) << read.error->text;
  EXPECT_EQ(raylet_.leases_granted, 2) << "it runs again as often as it may, in another process";
  ASSERT_TRUE(read.error->death);
  EXPECT_EQ(read.error->death->exit_code, 3);
}

TEST_F(ProcessTest, IdleLeasesGoBack) {
  int64_t value = 3;
  get(g_backend->submit({}, {.function = 20, .arguments = std::as_bytes(std::span(&value, 1))}));
  const auto until = std::chrono::steady_clock::now() + seconds(10);
  while (raylet_.leases_returned == 0 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_EQ(raylet_.leases_returned, 1);
}

TEST_F(ProcessTest, ManyThreadsMayCall) {
  const ActorId counter = spawn(0);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        ObjectHandle sum = call(counter, 2, 1);
        wrong += get(sum).error.has_value();
        g_backend->release(sum);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(get(call(counter, 2, 0)).number, 2000);
}

class IdleLinksStressTest : public ProcessTest {
 protected:
  IdleLinksStressTest() : ProcessTest(milliseconds(1)) {}
};

// Rings are given up after a millisecond without use, by callers and callees, while calls come at any moment around it.
TEST_F(IdleLinksStressTest, EveryCallRunsOnceAndInOrderWhileRingsAreClosedAndMadeAgain) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(base::cat("seed ", seed));
  std::mt19937 random(seed);
  const std::array<ActorId, 3> counters{spawn(0), spawn(0), spawn(0)};
  std::array<int64_t, 3> sums{};
  std::vector<std::pair<ObjectHandle, int64_t>> under_way;
  const auto check_all = [&] {
    for (auto& [object, sum] : std::exchange(under_way, {})) {
      const Read read = get(object);
      ASSERT_FALSE(read.error) << read.error->text;
      ASSERT_EQ(read.number, sum);
      g_backend->release(object);
    }
  };
  for (int round = 0; round < 600 && !HasFatalFailure(); ++round) {
    for (uint32_t calls = random() % 5; calls > 0; --calls) {
      const size_t to = random() % 3, through = random() % 3;
      if (through == to) {
        under_way.emplace_back(call(counters[to], 2, 1), ++sums[to]);
        if (random() % 2) check_all();
        continue;
      }
      check_all();  // a call by another actor may overtake ours: only one's own keep their order
      under_way.emplace_back(call(counters[through], 6, 1, {counters[to]}), ++sums[to] + 1);
      check_all();
    }
    check_all();
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 4'000));  // the load: bursts with pauses
  }
  EXPECT_GT(raylet_.links_made(), 50u);
}

TEST_F(ProcessTest, AChildOfForkGetsATypedError) {
  const ActorId counter = spawn(0);
  get(call(counter, 2, 1));
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      call(counter, 2, 1);
    } catch (const Unavailable&) {
      ::_exit(7);
    } catch (...) {
    }
    ::_exit(1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(get(call(counter, 2, 1)).number, 2);
}

// Else whoever has recorded the 64 bytes before a call's handshake uses up a worker's descriptors.
TEST_F(ProcessTest, WhoConnectsAndNeverSaysWhoItIsIsCutOff) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  base::Fd stranger(ends[0]), theirs(ends[1]);
  raylet_.hand_over(theirs.get(), rpc::random_nonce());
  theirs = {};
  const char record[] = {0x16, 3, 1, 0x40, 0};  // of TLS, 16 KiB long, which never comes whole
  ASSERT_EQ(::send(stranger.get(), record, sizeof record, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof record));
  const base::TimePoint end = base::system_clock().now() + 10 * rpc::kHandshakeLimit;
  bool cut = false;
  while (!cut && base::system_clock().now() < end) {
    pollfd entry{stranger.get(), POLLIN, 0};
    cut = ::poll(&entry, 1, 100) == 1;
    if (!cut) (void)::send(stranger.get(), "x", 1, MSG_NOSIGNAL);
  }
  EXPECT_TRUE(cut);
}

TEST_F(ProcessTest, AfterShutdownEverythingIsUnavailable) {
  const ActorId counter = spawn(0);
  ObjectHandle sum = call(counter, 2, 1);
  driver_->shutdown();
  EXPECT_EQ(raylet_.goodbyes, 1);
  EXPECT_THROW(call(counter, 2, 1), Unavailable);
  g_backend->release(sum);
}

// A program that joins and leaves its cluster many times (a test fixture) is not to run out of threads or descriptors.
TEST_F(ProcessTest, AfterShutdownNoThreadAndNoEngineIsLeft) {
  const auto left = [] {
    std::string found;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::string name;
      std::getline(std::ifstream(task.path() / "comm"), name);
      if (name == "rayo-service") found += name + " ";
    }
    for (const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const std::string what = std::filesystem::read_symlink(fd.path(), gone).string();
      if (what == "anon_inode:[eventpoll]") found += what + " ";
    }
    return found;
  };
  get(call(spawn(0), 2, 1));
  EXPECT_EQ(left(), "rayo-service anon_inode:[eventpoll] anon_inode:[eventpoll] anon_inode:[eventpoll] ");
  driver_->shutdown();
  EXPECT_EQ(left(), "");
}

TEST_F(ProcessTest, WhoWaitsAtTheEndIsToldAndLeaves) {
  const ObjectHandle never = call(spawn(0), 8, 60'000'000);
  std::atomic<int> waiting{0};
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i)
    waiters.emplace_back([&] {
      ++waiting;
      EXPECT_THROW(get(never, seconds(60)), Unavailable);
    });
  while (waiting != 4) std::this_thread::yield();
  driver_->shutdown();
  for (std::thread& waiter : waiters) waiter.join();
}

}  // namespace
}  // namespace rayo::worker

// The same program is driver and worker.
int main(int argc, char** argv) {
  for (auto& function : rayo::worker::g_functions) rayo::internal::register_function(function);
  if (rayo::worker::started_as_worker())
    rayo::worker::serve({argv, argv + argc},
                        [](rayo::internal::Backend& backend) { rayo::worker::g_backend = &backend; });
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
