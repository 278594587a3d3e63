// If these fail: a task that is sent to a worker before others have ended waits for ever, runs though it was cancelled, or is lost with
// the worker of another.
#include <chrono>
#include <fstream>
#include <gtest/gtest.h>
#include <thread>
#include <unistd.h>

#include "tests/runtime/worker/process_fixture.h"

namespace rayo::worker {
namespace {

using internal::Function;
using internal::FunctionKind;
using internal::Invocation;
using internal::ObjectHandle;
using std::chrono::milliseconds;

// Answers its argument; -1: dies, another: sleeps so many microseconds first.
void nap(Invocation& call) {
  const int64_t span = load<int64_t>(call.arguments);
  if (span < 0) ::_exit(3);
  if (span > 0) ::usleep(static_cast<useconds_t>(span));
  store(call.result, span);
}
std::string file_of(int64_t number) { return base::cat("/tmp/rayo-worker-test-", ::getuid(), "-", number); }
// Waits for the file that `make_file` makes; its argument is the file's number, or 0: it returns at once.
void await_file(Invocation& call) {
  const int64_t number = load<int64_t>(call.arguments);
  while (number != 0 && ::access(file_of(number).c_str(), F_OK) != 0) ::usleep(1'000);
  store(call.result, number);
}
void make_file(Invocation& call) {
  const int64_t number = load<int64_t>(call.arguments);
  if (number != 0) std::ofstream(file_of(number)) << "made";
  store(call.result, number);
}
// Keeps the actor's handle behind the number, where there is one.
void keep(Invocation& call) {
  if (call.arguments.size() > sizeof(int64_t)) g_backend->retain_actor(load<ActorId>(call.arguments, sizeof(int64_t)));
  store(call.result, load<int64_t>(call.arguments));
}
void twice(Invocation& call) { store(call.result, 2 * load<int64_t>(call.arguments)); }

Function g_functions[] = {
    {.id = 30, .kind = FunctionKind::kTask, .name = "nap", .invoke = nap},
    {.id = 31, .kind = FunctionKind::kTask, .name = "await_file", .invoke = await_file},
    {.id = 32, .kind = FunctionKind::kTask, .name = "make_file", .invoke = make_file},
    {.id = 33, .kind = FunctionKind::kTask, .name = "twice", .invoke = twice},
    {.id = 34, .kind = FunctionKind::kTask, .name = "keep", .invoke = keep},
};
// Before main: workers are this program too.
const bool g_registered = [] {
  for (Function& function : g_functions) internal::register_function(function);
  return true;
}();

// Tasks of functions that are known to be short: they are sent to a worker before it has ended the ones before.
class ShortTasksTest : public ProcessTest {
 protected:
  static ObjectHandle task(uint64_t function, int64_t argument) {
    return g_backend->submit({}, {.function = function, .arguments = std::as_bytes(std::span(&argument, 1))});
  }
  // Two workers, and how short each function is when there is nothing to do.
  void SetUp() override {
    ProcessTest::SetUp();
    const std::vector<ObjectHandle> both = {task(30, 30'000), task(30, 30'000)};
    for (const ObjectHandle& each : both) ASSERT_FALSE(get(each).error);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (raylet_.leases_granted != 2 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    for (uint64_t function = 30; function <= 34; ++function)
      for (int i = 0; i < 100; ++i) g_backend->release(done(task(function, 0)));
  }
  static ObjectHandle done(const ObjectHandle& object) {
    const Read read = get(object);
    EXPECT_FALSE(read.error) << read.error->text;
    return object;
  }
  // A number of a file that is not there.
  static int64_t fresh_file() {
    static int64_t last = ::getpid() * int64_t{1000};
    ::unlink(file_of(++last).c_str());
    return last;
  }
};

TEST_F(ShortTasksTest, EachOfAFloodEndsWithItsOwnValue) {
  std::vector<ObjectHandle> results;
  for (int64_t i = 0; i < 20'000; ++i) results.push_back(task(33, i));
  for (size_t i = 0; i < results.size(); ++i) {
    const Read read = get(results[i]);
    ASSERT_FALSE(read.error) << read.error->text;
    ASSERT_EQ(read.number, 2 * static_cast<int64_t>(i));
    g_backend->release(results[i]);
  }
}

TEST_F(ShortTasksTest, OneBehindATaskThatTakesLongRunsOnAnotherWorker) {
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<ObjectHandle> naps = {task(30, 1'000'000), task(30, 1'000'000)};
  for (const ObjectHandle& each : naps) EXPECT_EQ(get(each).number, 1'000'000);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(1900));
}

TEST_F(ShortTasksTest, ATaskMayWaitForOneThatWasSentAfterIt) {
  const int64_t file = fresh_file();
  ObjectHandle waits = task(31, file);
  ObjectHandle makes = task(32, file);
  EXPECT_EQ(get(waits).number, file);
  EXPECT_EQ(get(makes).number, file);
  ::unlink(file_of(file).c_str());
}

TEST_F(ShortTasksTest, OneThatIsCancelledBehindAnotherNeverRuns) {
  const int64_t file = fresh_file();
  ObjectHandle before = task(30, 50'000);
  ObjectHandle never = task(32, file);
  g_backend->cancel(never, {});
  EXPECT_EQ(get(never).error.value().kind, ErrorKind::kCancelled);
  EXPECT_EQ(get(before).number, 50'000);
  for (int i = 0; i < 10; ++i) done(task(30, 0));
  EXPECT_NE(::access(file_of(file).c_str(), F_OK), 0);
}

TEST_F(ShortTasksTest, ThoseBehindOneThatEndsItsWorkerRunElsewhere) {
  ObjectHandle before = task(30, 0);
  ObjectHandle dies = task(30, -1);
  std::vector<ObjectHandle> behind;
  for (int64_t i = 0; i < 20; ++i) behind.push_back(task(33, i));
  const Read death = get(dies);
  ASSERT_TRUE(death.error);
  EXPECT_EQ(death.error->kind, ErrorKind::kTaskSystem) << death.error->text;
  EXPECT_NE(death.error->text.find("task nap"), std::string::npos) << death.error->text;
  for (size_t i = 0; i < behind.size(); ++i) EXPECT_EQ(get(done(behind[i])).number, 2 * static_cast<int64_t>(i));
  EXPECT_EQ(get(done(before)).number, 0);
}

// Its answer waits until the head knows of a handle that it has kept: the task behind it has not begun by then.
TEST_F(ShortTasksTest, OneWhoseAnswerWaitsForTheHeadDoesNotDieOfTheNext) {
  raylet_.hold_back_marks();
  const ActorId actor{9, 9};
  std::vector<std::byte> arguments;
  store(&arguments, 5);
  arguments.insert(arguments.end(), reinterpret_cast<const std::byte*>(&actor),
                   reinterpret_cast<const std::byte*>(&actor + 1));
  ObjectHandle keeps = g_backend->submit({}, {.function = 34, .arguments = arguments, .inner_actors = {&actor, 1}});
  ObjectHandle dies = task(30, -1);
  const Read death = get(dies);
  ASSERT_TRUE(death.error);
  EXPECT_NE(death.error->text.find("task nap"), std::string::npos) << death.error->text;
  raylet_.answer_marks();
  EXPECT_EQ(get(done(keeps)).number, 5);
}

}  // namespace
}  // namespace rayo::worker
