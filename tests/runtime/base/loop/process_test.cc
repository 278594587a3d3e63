// If this fails, a dead worker goes unnoticed or its death record is wrong, and Ctrl-C does not stop a
// daemon.
#include "runtime/base/loop/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/loop/event.h"
#include "runtime/base/loop/signals.h"

namespace rayo::base {
namespace {

using namespace std::chrono_literals;

template <class F>
pid_t fork_child(F body) {
  pid_t pid = ::fork();
  if (pid == 0) {
    body();
    ::_exit(99);
  }
  return pid;
}

TEST(ChildReaper, TellsExitCodeSignalAndPeakMemory) {
  run_in_loop([] {
    ChildReaper reaper(*current_loop());
    OneShot<ChildEnd> exited;
    OneShot<ChildEnd> killed;
    pid_t first = fork_child([] { ::_exit(7); });
    pid_t second = fork_child([] { ::pause(); });
    ASSERT_TRUE(reaper.on_child_exit(first, [&](const ChildEnd& end) { exited.set(end); }).ok());
    ASSERT_TRUE(reaper.on_child_exit(second, [&](const ChildEnd& end) { killed.set(end); }).ok());
    auto end = exited.wait(current_loop()->deadline(10s));
    ASSERT_TRUE(end);
    EXPECT_TRUE(end->exited);
    EXPECT_EQ(end->exit_code, 7);
    EXPECT_EQ(end->text(), "exit code 7");
    EXPECT_GT(end->rss_peak_bytes, 100'000);
    EXPECT_EQ(reaper.watched(), 1);
    ::kill(second, SIGKILL);
    end = killed.wait(current_loop()->deadline(10s));
    ASSERT_TRUE(end);
    EXPECT_FALSE(end->exited);
    EXPECT_EQ(end->signal, SIGKILL);
    EXPECT_EQ(end->text(), "signal 9 (Killed)");
    EXPECT_EQ(::waitpid(second, nullptr, WNOHANG), -1);  // reaped
  });
}

TEST(ChildReaper, AChildThatIsDeadAlreadyAndOneThatIsNone) {
  run_in_loop([] {
    ChildReaper reaper(*current_loop());
    pid_t pid = fork_child([] { ::_exit(0); });
    siginfo_t info{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
    OneShot<ChildEnd> ended;
    ASSERT_TRUE(reaper.on_child_exit(pid, [&](const ChildEnd& end) { ended.set(end); }).ok());
    EXPECT_TRUE(ended.wait(current_loop()->deadline(10s)));
    EXPECT_EQ(reaper.on_child_exit(1, [](const ChildEnd&) {}).code(), absl::StatusCode::kNotFound);
  });
}

TEST(Signals, ASignalIsAnEventOfTheLoop) {
  run_in_loop([] {
    Queue<int> seen;
    Signals signals(*current_loop(), {SIGTERM, SIGUSR1}, [&](int number) { seen.push(number); });
    ::kill(::getpid(), SIGTERM);
    EXPECT_EQ(seen.pop(current_loop()->deadline(10s)), SIGTERM);
    ::kill(::getpid(), SIGUSR1);
    EXPECT_EQ(seen.pop(current_loop()->deadline(10s)), SIGUSR1);
  });
}

}  // namespace
}  // namespace rayo::base
