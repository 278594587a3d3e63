// If this fails: a death is explained wrongly, and its last words are lost.
#include "runtime/raylet/verdict.h"

#include <chrono>
#include <csignal>
#include <gtest/gtest.h>
#include <string>

namespace rayo::raylet {
namespace {

TEST(Verdict, ExitAndSignal) {
  auto record = explain({.pid = 7, .exited = true, .exit_code = 3}, {.what = "actor Counter", .last_lines = {"boom"}});
  EXPECT_EQ(record.kind(), proto::EXIT);
  EXPECT_EQ(record.exit_code(), 3);
  EXPECT_EQ(record.text(), "actor Counter ended: exit code 3");
  EXPECT_EQ(record.last_log_lines(0), "boom");
  record = explain({.pid = 7, .signal = SIGSEGV, .core_dumped = true}, {.what = "actor Counter"});
  EXPECT_EQ(record.kind(), proto::SIGNAL);
  EXPECT_EQ(record.signal(), SIGSEGV);
  EXPECT_TRUE(record.core_dumped());
  EXPECT_NE(record.text().find("Segmentation fault"), std::string::npos);
}

// A SIGSEGV alone sends people after a bad pointer that is not there.
TEST(Verdict, AnOverflowOfACallsStackIsNamedWithWhatHelps) {
  auto record = explain({.signal = SIGSEGV}, {.what = "actor Deep", .overflowed = true});
  EXPECT_EQ(
      record.text(),
      "actor Deep ended: signal 11 (Segmentation fault): the stack of a concurrent call overflowed (give the actor "
      "a larger stack_size)");
  EXPECT_EQ(explain({.signal = SIGKILL}, {.overflowed = true}).text().find("stack"), std::string::npos);
}

TEST(Verdict, AKillOfTheKernelForMemoryIsNoKillOfOurs) {
  EXPECT_EQ(explain({.signal = SIGKILL}, {.oom_kills = 1}).kind(), proto::OUT_OF_MEMORY);
  EXPECT_EQ(explain({.signal = SIGKILL}, {.oom_kills = 0}).kind(), proto::SIGNAL);
  EXPECT_EQ(explain({.signal = SIGSEGV}, {.oom_kills = 1}).kind(), proto::SIGNAL);
  EXPECT_EQ(explain({.signal = SIGKILL}, {.asked = proto::KILLED, .oom_kills = 1}).kind(), proto::KILLED);
}

TEST(Verdict, WhoNeverSaidHelloFailedToStart) {
  auto record = explain({.exited = true, .exit_code = 1},
                        {.reached_init = false, .last_lines = {"error while loading shared libraries"}});
  EXPECT_EQ(record.kind(), proto::START_FAILED);
  EXPECT_NE(record.text().find("never reached rayo::init: exit code 1"), std::string::npos);
}

TEST(Verdict, LastLinesAreTheLastOnes) {
  EXPECT_EQ(last_lines("a\nb\nc\n", 2), (std::vector<std::string>{"b", "c"}));
  EXPECT_EQ(last_lines("one", 20), std::vector<std::string>{"one"});
  EXPECT_TRUE(last_lines("", 20).empty());
  EXPECT_EQ(last_lines("a\n\nb", 20), (std::vector<std::string>{"a", "", "b"}));
}

// The raylet's loop does it: while `rayo logs --tail 1000000` counted, the node once answered nobody, and was dead to the head.
TEST(Verdict, AMillionLastLinesTakeNoTime) {
  std::string text;
  for (int i = 0; i < 1'000'000; ++i) text += std::to_string(i % 10) + "\n";
  const auto begun = std::chrono::steady_clock::now();
  const auto lines = last_lines(text, 1'000'000);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
  ASSERT_EQ(lines.size(), 1'000'000u);
  EXPECT_EQ(lines[12], "2");
}

}  // namespace
}  // namespace rayo::raylet
