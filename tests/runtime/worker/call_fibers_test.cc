// If these fail: calls of a concurrent actor lose their place, their time-outs or their exceptions, or their stacks leak.
#include "runtime/worker/call_fibers.h"

#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/testkit/manual_clock.h"

namespace rayo::worker {
namespace {

class CallFibersTest : public testing::Test {
 protected:
  testkit::ManualClock clock_;
  CallFibers fibers_{64 << 10, clock_};
  std::vector<std::string> seen_;
};

TEST_F(CallFibersTest, AFiberThatWaitsLetsTheStarterGoOn) {
  bool open = false;
  fibers_.start([&] {
    seen_.push_back("begins");
    EXPECT_TRUE(fibers_.inside());
    EXPECT_TRUE(fibers_.wait([&] { return open; }, base::kForever));
    seen_.push_back("ends");
  });
  EXPECT_FALSE(fibers_.inside());
  seen_.push_back("main");
  EXPECT_EQ(fibers_.count(), 1u);
  fibers_.resume_due();
  EXPECT_EQ(fibers_.count(), 1u) << "nothing was due";
  open = true;
  EXPECT_TRUE(fibers_.any_due(clock_.now()));
  fibers_.resume_due();
  EXPECT_EQ(fibers_.count(), 0u);
  EXPECT_EQ(seen_, (std::vector<std::string>{"begins", "main", "ends"}));
}

TEST_F(CallFibersTest, AWaitEndsAtItsDeadline) {
  bool in_time = true;
  fibers_.start([&] { in_time = fibers_.wait([] { return false; }, clock_.now() + std::chrono::seconds(1)); });
  EXPECT_EQ(fibers_.next_deadline(), clock_.now() + std::chrono::seconds(1));
  fibers_.resume_due();
  EXPECT_EQ(fibers_.count(), 1u);
  clock_.advance(std::chrono::seconds(1));
  fibers_.resume_due();
  EXPECT_EQ(fibers_.count(), 0u);
  EXPECT_FALSE(in_time);
  EXPECT_EQ(fibers_.next_deadline(), base::kForever);
}

TEST_F(CallFibersTest, ExceptionsBelongToTheirFiber) {
  std::vector<bool> open(3);
  for (size_t i = 0; i < 3; ++i) {
    fibers_.start([&, i] {
      try {
        try {
          throw std::runtime_error(std::to_string(i));
        } catch (...) {
          fibers_.wait([&, i] { return open[i]; }, base::kForever);
          throw;
        }
      } catch (const std::exception& error) {
        seen_.push_back(error.what());
      }
    });
  }
  EXPECT_EQ(std::uncaught_exceptions(), 0);
  EXPECT_EQ(std::current_exception(), nullptr) << "a fiber's exception shows in the main loop";
  for (size_t i : {size_t{1}, size_t{0}, size_t{2}}) {
    open[i] = true;
    fibers_.resume_due();
  }
  EXPECT_EQ(seen_, (std::vector<std::string>{"1", "0", "2"}));
}

TEST_F(CallFibersTest, OneAtATimeIsContinued) {
  bool open = false;
  for (int i = 0; i < 3; ++i)
    fibers_.start([&] {
      fibers_.wait([&] { return open; }, base::kForever);
      seen_.push_back("x");
    });
  open = true;
  fibers_.resume_one();
  EXPECT_EQ(seen_.size(), 1u);
  fibers_.resume_due();
  EXPECT_EQ(seen_.size(), 3u);
}

// Ten thousand short calls on a few stacks.
TEST_F(CallFibersTest, StacksAreUsedAgain) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "TSan maps memory of its own for each stack";
#endif
  const auto maps = [] {
    std::ifstream file("/proc/self/maps");
    return std::count(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>(), '\n');
  };
  fibers_.start([] {});
  const auto before = maps();
  for (int i = 0; i < 10'000; ++i) fibers_.start([] {});
  EXPECT_LE(maps(), before + 4);
}

}  // namespace
}  // namespace rayo::worker
