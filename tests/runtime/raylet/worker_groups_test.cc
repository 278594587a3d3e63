// If these fail: what a worker started outlives it, or a worker is said to have died for want of memory when another did.
#include "runtime/raylet/worker_groups.h"

#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/cgroup.h"
#include "runtime/base/ids.h"
#include "runtime/base/text.h"

namespace rayo::raylet {
namespace {

using base::cat;
using base::Path;

bool wait_for(const std::function<bool()>& condition) {
  for (int i = 0; i < 10'000; ++i) {
    if (condition()) return true;
    ::usleep(1000);
  }
  return false;
}

std::string text_of(const Path& file) { return base::read_file(file).value_or(""); }

// A child that does as told once a byte comes; it ends with this test.
struct Child {
  explicit Child(const std::function<void()>& body) {
    EXPECT_EQ(::pipe(go), 0);
    pid = ::fork();
    if (pid != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    char byte = 0;
    if (::read(go[0], &byte, 1) == 1) body();
    ::_exit(0);
  }
  void start() const { EXPECT_EQ(::write(go[1], "x", 1), 1); }
  int reap() const {
    int status = 0;
    ::waitpid(pid, &status, 0);
    return status;
  }
  int go[2] = {};
  pid_t pid = 0;
};

TEST(WorkerGroups, OnAPlainFolderEachWorkerIsEnteredCountedAndForgotten) {
  char pattern[] = "/tmp/rayo-groups-XXXXXX";
  const Path parent = mkdtemp(pattern);
  {
    WorkerGroups groups({parent, "/nowhere/to/be/found"}, "rayo-1-node");
    ASSERT_EQ(groups.folders(), std::vector<Path>{parent / "rayo-1-node"});
    auto process = base::random_id<ProcessId>();
    const Path group = parent / "rayo-1-node" / process.hex();
    EXPECT_EQ(groups.oom_kills(process), -1);
    Child child([] {});
    groups.enter(process, child.pid);
    EXPECT_TRUE(wait_for([&] { return text_of(group / "cgroup.procs") == cat(child.pid); }));
    std::ofstream(group / "memory.oom_control") << "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
    EXPECT_EQ(groups.oom_kills(process), 3);
    std::ofstream(group / "memory.events") << "low 0\nhigh 0\nmax 7\noom 1\noom_kill 1\n";
    EXPECT_EQ(groups.oom_kills(process), 1);
    child.start();
    child.reap();
    std::filesystem::remove_all(group);  // what the kernel does of itself
    groups.end(process);
  }
  EXPECT_FALSE(std::filesystem::exists(parent / "rayo-1-node"));
  std::filesystem::remove_all(parent);
}

TEST(WorkerGroups, OneThatHasEndedIsNotEntered) {
  char pattern[] = "/tmp/rayo-groups-XXXXXX";
  const Path parent = mkdtemp(pattern);
  {
    WorkerGroups groups({parent}, "rayo-1-node");
    Child child([] {});
    child.start();
    child.reap();
    groups.enter(base::random_id<ProcessId>(), child.pid);
  }
  EXPECT_FALSE(std::filesystem::exists(parent / "rayo-1-node"));
  std::filesystem::remove_all(parent);
}

class RealGroupsTest : public testing::Test {
 protected:
  void SetUp() override {
    parents_ = base::divisible_cgroups();
    if (parents_.empty()) GTEST_SKIP() << "no control groups can be made on this machine";
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    groups_.emplace(parents_, cat("rayo-", ::getpid(), "-test"));
    if (groups_->folders().empty()) GTEST_SKIP() << "no control groups can be made on this machine";
  }
  bool in_group(ProcessId process, pid_t pid) const {
    for (const Path& folder : groups_->folders())
      if (text_of(folder / process.hex() / "cgroup.procs").find(cat(pid)) == std::string::npos) return false;
    return true;
  }
  std::vector<Path> parents_;
  std::optional<WorkerGroups> groups_;
};

TEST_F(RealGroupsTest, WhatLeftItsSessionEndsWithTheWorker) {
  int told[2];
  ASSERT_EQ(::pipe(told), 0);
  Child child([&] {
    if (::fork() == 0) {
      ::setsid();
      const pid_t self = ::getpid();
      (void)!::write(told[1], &self, sizeof self);
      for (;;) ::pause();
    }
    for (;;) ::pause();
  });
  auto process = base::random_id<ProcessId>();
  groups_->enter(process, child.pid);
  ASSERT_TRUE(wait_for([&] { return in_group(process, child.pid); }));
  child.start();
  pid_t away = 0;
  ASSERT_EQ(::read(told[0], &away, sizeof away), static_cast<ssize_t>(sizeof away));
  ::kill(child.pid, SIGKILL);
  child.reap();
  EXPECT_EQ(::kill(away, 0), 0);
  groups_->end(process);
  int status = 0;
  EXPECT_EQ(::waitpid(away, &status, 0), away);  // it came to us, its subreaper
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  groups_.reset();
  for (const Path& parent : parents_) EXPECT_FALSE(std::filesystem::exists(parent / cat("rayo-", ::getpid(), "-test")));
}

TEST_F(RealGroupsTest, AKillForWantOfMemoryIsCountedForTheOneWhoWasKilled) {
  Child greedy([] {
    constexpr size_t kBytes = 200u << 20;
    void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memset(memory, 1, kBytes);
  });
  Child modest([] {});
  auto first = base::random_id<ProcessId>(), second = base::random_id<ProcessId>();
  groups_->enter(first, greedy.pid);
  groups_->enter(second, modest.pid);
  ASSERT_TRUE(wait_for([&] { return in_group(first, greedy.pid) && in_group(second, modest.pid); }));
  bool limited = false;
  for (const Path& folder : groups_->folders())
    for (const char* file : {"memory.limit_in_bytes", "memory.max"})
      if (std::filesystem::exists(folder / first.hex() / file))
        limited = bool(std::ofstream(folder / first.hex() / file) << (32 << 20) << std::flush) || limited;
  if (!limited) {
    ::kill(greedy.pid, SIGKILL);
    greedy.reap();
    GTEST_SKIP() << "the memory controller is not ours here";
  }
  greedy.start();
  const int status = greedy.reap();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  EXPECT_EQ(groups_->oom_kills(first), 1);
  ::kill(modest.pid, SIGKILL);
  modest.reap();
  EXPECT_EQ(groups_->oom_kills(second), 0);
}

}  // namespace
}  // namespace rayo::raylet
