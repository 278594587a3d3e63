// If this fails, a user who gives a call up waits for it all the same, or has it run behind his back.
#include <atomic>
#include <gtest/gtest.h>
#include <thread>

#include <rayo/rayo.h>

#include "tests/runtime/api/backends.h"

using namespace std::chrono_literals;

namespace {

struct Worker {
  int64_t started = 0;
  bool saw_cancel = false;
  // Ends early when its caller cancels it.
  int64_t spin() {
    ++started;
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (!rayo::is_cancelled() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
    saw_cancel = rayo::is_cancelled();
    return started;
  }
  int64_t take(int64_t n) { return started += n; }
  int64_t count() { return started; }
  bool saw() { return saw_cancel; }
};

int64_t spin_task(int64_t n) {
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (!rayo::is_cancelled() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
  return n;
}
int64_t late(int64_t ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  return ms;
}
int64_t plus_one(int64_t n) { return n + 1; }

// A call of spin() that has started.
rayo::ObjectRef<int64_t> begun(const rayo::ActorHandle<Worker>& worker) {
  worker.call<&Worker::count>().get();
  auto running = worker.call<&Worker::spin>();
  EXPECT_THROW(running.get(300ms), rayo::Timeout);
  return running;
}

TEST_F(ApiTest, ACancelledMethodThatRunsIsToldAndItsCallerGoesOn) {
  auto worker = rayo::spawn<Worker>();
  auto running = begun(worker);
  rayo::cancel(running);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(running.get(), rayo::Cancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  EXPECT_TRUE(worker.call<&Worker::saw>().get()) << "the method did not end early";
  EXPECT_FALSE(rayo::is_cancelled()) << "nobody cancels a driver";
}

TEST_F(ApiTest, ACancelledCallThatWaitsNeverStarts) {
  auto worker = rayo::spawn<Worker>();
  auto running = begun(worker);
  auto waiting = worker.call<&Worker::take>(100);
  auto behind = worker.call<&Worker::count>();
  rayo::cancel(waiting);
  EXPECT_THROW(waiting.get(), rayo::Cancelled);
  rayo::cancel(running);
  EXPECT_EQ(behind.get(), 1) << "the cancelled call ran";
}

TEST_F(ApiTest, ACallThatWaitsForItsArgumentIsTakenOut) {
  auto worker = rayo::spawn<Worker>();
  auto waiting = worker.call<&Worker::take>(rayo::remote<late>(1500));
  auto behind = worker.call<&Worker::count>();
  rayo::cancel(waiting);
  EXPECT_THROW(waiting.get(), rayo::Cancelled);
  EXPECT_EQ(behind.get(), 0);
}

TEST_F(ApiTest, TasksAreCancelledRunningAndWaiting) {
  auto running = rayo::remote<spin_task>(1);
  EXPECT_THROW(running.get(500ms), rayo::Timeout);
  auto waiting = rayo::remote<plus_one>(running);
  auto after = rayo::remote<plus_one>(rayo::remote<plus_one>(waiting));
  rayo::cancel(waiting);
  EXPECT_THROW(waiting.get(), rayo::Cancelled);
  EXPECT_THROW(after.get(), rayo::Error) << "what wants its value cannot run either";
  rayo::cancel(running);
  EXPECT_THROW(running.get(), rayo::Cancelled);
  EXPECT_EQ(rayo::remote<plus_one>(1).get(), 2) << "its worker is of use again";
}

TEST_F(ApiTest, CancellingWhatHasEndedDoesNothing) {
  auto worker = rayo::spawn<Worker>();
  auto done = worker.call<&Worker::take>(5);
  EXPECT_EQ(done.get(), 5);
  rayo::cancel(done);
  EXPECT_EQ(done.get(), 5);
  auto value = rayo::put(int64_t{7});
  rayo::cancel(value);
  EXPECT_EQ(value.get(), 7);
  EXPECT_THROW(rayo::cancel(rayo::ObjectRef<int>()), rayo::Invalid);
}

TEST_F(ApiTest, ManyCancelledCallsLeaveTheOthersInOrder) {
  auto worker = rayo::spawn<Worker>();
  auto running = begun(worker);
  std::vector<rayo::ObjectRef<int64_t>> odd, even;
  for (int i = 0; i < 200; ++i) (i % 2 ? odd : even).push_back(worker.call<&Worker::take>(1));
  for (const auto& ref : odd) rayo::cancel(ref);
  odd.clear();  // the places of their results are used again
  rayo::cancel(running);
  for (size_t i = 0; i < even.size(); ++i) ASSERT_EQ(even[i].get(), static_cast<int64_t>(i) + 2);
}

TEST_F(ApiTest, AnyThreadMayCancel) {
  auto worker = rayo::spawn<Worker>();
  auto running = worker.call<&Worker::spin>();
  std::thread canceller([&running] {
    std::this_thread::sleep_for(50ms);
    rayo::cancel(running);
  });
  EXPECT_THROW(running.get(20s), rayo::Cancelled) << "whoever waits is woken";
  canceller.join();
  EXPECT_TRUE(soon([&] { return worker.call<&Worker::saw>().get(); }));
}

}  // namespace
