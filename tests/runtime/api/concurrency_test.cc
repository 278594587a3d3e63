// If this fails, an actor with max_concurrency over 1 runs its calls one by one, or runs more than it may, or mixes up
// what belongs to each.
#include <gtest/gtest.h>
#include <stdexcept>
#include <thread>

#include <rayo/rayo.h>

#include "tests/runtime/api/backends.h"

using namespace std::chrono_literals;

namespace {

using Gate = std::vector<rayo::ObjectRef<int64_t>>;  // inside of a value: the method waits for it, not the call

int64_t opens_after(int64_t ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  return ms;
}

struct Meeting {
  int64_t inside = 0;
  int64_t most = 0;
  int64_t ticks = 0;
  std::thread::id thread = std::this_thread::get_id();
  rayo::StreamWriter<int64_t> out;

  int64_t meet(const Gate& gate) {
    most = std::max(most, ++inside);
    const int64_t value = gate.at(0).get();
    --inside;
    if (std::this_thread::get_id() != thread) return -1;
    return value;
  }
  int64_t tick() { return ++ticks; }
  int64_t most_inside() { return most; }
  std::string rethrow(const std::string& text, const Gate& gate) {
    try {
      try {
        throw std::runtime_error(text);
      } catch (...) {
        gate.at(0).get();
        throw;
      }
    } catch (const std::exception& error) {
      return error.what();
    }
  }
  int64_t block(int64_t ms) {
    return rayo::blocking([ms] { return opens_after(ms); });
  }
  void block_and_throw() {
    rayo::blocking([] { throw std::out_of_range("blocked"); });
  }
  rayo::Stream<int64_t> open() {
    auto [writer, stream] = rayo::make_stream<int64_t>({.window = 1});
    out = std::move(writer);
    return std::move(stream);
  }
  void write(int64_t n) {
    for (int64_t i = 0; i < n; ++i) out.write(i);
    out.close();
  }
  int64_t wait_for_cancel(const Gate& gate) {
    while (!rayo::is_cancelled()) rayo::wait(gate, 1, 5ms);
    return ++ticks;
  }
  int64_t ask_self(rayo::ActorHandle<Meeting> self) { return self.call<&Meeting::tick>().get(); }
};

// TSan takes each stack for a thread, and the in-process world holds its mutex while it changes stacks: to TSan one thread locks
// and another unlocks. The worker's own stacks are under it in tests/runtime/worker/call_fibers_test.cc.
#ifndef __SANITIZE_THREAD__

TEST_F(ApiTest, CallsOfAConcurrentActorWaitTogetherOnOneThread) {
  auto meeting = rayo::spawn<Meeting>({.max_concurrency = 3});
  const Gate gate{rayo::remote<opens_after>(600)};
  std::vector<rayo::ObjectRef<int64_t>> waiting;
  for (int i = 0; i < 5; ++i) waiting.push_back(meeting.call<&Meeting::meet>(gate));
  for (auto& ref : waiting) EXPECT_EQ(ref.get(), 600);
  EXPECT_EQ(meeting.call<&Meeting::most_inside>().get(), 3) << "as many as it may have, and no more";
}

TEST_F(ApiTest, AnotherCallRunsWhileOneWaits) {
  auto meeting = rayo::spawn<Meeting>({.max_concurrency = 2});
  const Gate gate{rayo::remote<opens_after>(1500)};
  auto waits = meeting.call<&Meeting::meet>(gate);
  for (int64_t i = 1; i <= 100; ++i) ASSERT_EQ(meeting.call<&Meeting::tick>().get(), i);
  EXPECT_FALSE(waits.ready()) << "the ticks waited for it";
  EXPECT_EQ(waits.get(), 1500);
  EXPECT_EQ(meeting.call<&Meeting::ask_self>(meeting).get(20s), 101) << "it may wait for itself";
  rayo::kill(meeting);
}

TEST_F(ApiTest, EachWaitingCallKeepsItsException) {
  auto meeting = rayo::spawn<Meeting>({.max_concurrency = 8});
  std::vector<rayo::ObjectRef<std::string>> texts;
  for (int i = 0; i < 8; ++i)
    texts.push_back(
        meeting.call<&Meeting::rethrow>(std::to_string(i), Gate{rayo::remote<opens_after>(100 + 20 * ((i * 5) % 8))}));
  for (int i = 0; i < 8; ++i) EXPECT_EQ(texts[static_cast<size_t>(i)].get(), std::to_string(i));
}

TEST_F(ApiTest, BlockingCodeLetsOtherCallsRun) {
  auto meeting = rayo::spawn<Meeting>({.max_concurrency = 2});
  auto blocked = meeting.call<&Meeting::block>(1500);
  EXPECT_EQ(meeting.call<&Meeting::tick>().get(), 1);
  EXPECT_FALSE(blocked.ready());
  EXPECT_EQ(blocked.get(), 1500);
  auto thrown = meeting.call<&Meeting::block_and_throw>().try_get();
  ASSERT_FALSE(thrown);
  EXPECT_EQ(thrown.error().remote_type, "std::out_of_range");
}

TEST_F(ApiTest, AFullStreamHoldsUpItsWriterAlone) {
  auto meeting = rayo::spawn<Meeting>({.max_concurrency = 2});
  auto stream = meeting.call<&Meeting::open>().get();
  auto writes = meeting.call<&Meeting::write>(50);
  EXPECT_EQ(meeting.call<&Meeting::tick>().get(), 1);
  int64_t items = 0;
  for (int64_t n : stream) EXPECT_EQ(n, items++);
  EXPECT_EQ(items, 50);
  writes.get();
}

TEST_F(ApiTest, OneOfManyRunningCallsIsCancelled) {
  auto meeting = rayo::spawn<Meeting>({.max_concurrency = 3});
  const Gate never{rayo::remote<opens_after>(5000)};
  auto first = meeting.call<&Meeting::wait_for_cancel>(never);
  auto second = meeting.call<&Meeting::wait_for_cancel>(never);
  EXPECT_EQ(meeting.call<&Meeting::tick>().get(), 1);
  rayo::cancel(second);
  EXPECT_THROW(second.get(), rayo::Cancelled);
  EXPECT_THROW(first.get(100ms), rayo::Timeout) << "the other one goes on";
  rayo::cancel(first);
  EXPECT_THROW(first.get(), rayo::Cancelled);
}

TEST_F(ApiTest, ADeathEndsEveryCallOfAConcurrentActor) {
  auto meeting = rayo::spawn<Meeting>({.max_concurrency = 4});
  const Gate gate{rayo::remote<opens_after>(5000)};
  std::vector<rayo::ObjectRef<int64_t>> waiting;
  for (int i = 0; i < 3; ++i) waiting.push_back(meeting.call<&Meeting::meet>(gate));
  EXPECT_EQ(meeting.call<&Meeting::tick>().get(), 1);
  rayo::kill(meeting);
  for (auto& ref : waiting) EXPECT_THROW(ref.get(), rayo::ActorDied);
}

TEST_F(ApiTest, AConcurrencyOfNothingIsRefused) {
  EXPECT_THROW(rayo::spawn<Meeting>({.max_concurrency = 0}), rayo::Invalid);
  EXPECT_THROW(rayo::spawn<Meeting>({.max_concurrency = 2, .stack_size = 100}), rayo::Invalid);
}

#endif

}  // namespace
