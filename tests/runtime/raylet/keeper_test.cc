// If this fails: a raylet that is killed leaves workers behind that hold memory and GPUs.
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "runtime/base/ids.h"
#include "runtime/base/private_file.h"
#include "runtime/base/text.h"

namespace rayo {
namespace {

using namespace std::chrono_literals;

// Sleeps whose command line holds the mark.
int marked(const std::string& mark) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    auto line = base::read_file(entry.path() / "cmdline");
    auto name = base::read_file(entry.path() / "comm");
    count += line.ok() && name.ok() && *name == "sleep\n" && line->find(mark) != std::string::npos;
  }
  return count;
}

template <class Condition>
bool eventually(Condition condition) {
  auto deadline = std::chrono::steady_clock::now() + 10s;
  while (!condition() && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(5ms);
  return condition();
}

class KeeperTest : public testing::Test {
 protected:
  // Runs `script` by a shell under a keeper; each sleep in it carries the mark.
  pid_t start(const std::string& script) {
    auto keeper = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "rayo-keeper";
    pid_t pid = fork();
    if (pid == 0) {
      execl(keeper.c_str(), "rayo-keeper", "--pid-file", pid_file_.c_str(), "--", "/bin/sh", "-c", script.c_str(),
            nullptr);
      _exit(99);
    }
    return pid;
  }

  // A length of sleep that no other process has.
  std::string mark_ = base::cat("98", base::random_bits() % 1'000'000'000, ".5");
  std::string pid_file_ = base::cat("/tmp/rayo-keeper-test-", mark_);
};

TEST_F(KeeperTest, TheEndOfItsChildIsTheEndOfTheTree) {
  pid_t keeper = start(base::cat("sleep ", mark_, " & setsid sleep ", mark_, " & exec sleep ", mark_));
  ASSERT_TRUE(eventually([&] { return marked(mark_) == 3; }));
  // The child is the one whose parent is the keeper; it has become the last sleep.
  auto children = base::read_file(base::cat("/proc/", keeper, "/task/", keeper, "/children"));
  ASSERT_TRUE(children.ok());
  ASSERT_EQ(kill(std::atoi(children->c_str()), SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(waitpid(keeper, &status, 0), keeper);
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGKILL);
  EXPECT_EQ(marked(mark_), 0);
  EXPECT_FALSE(std::filesystem::exists(pid_file_));
}

TEST_F(KeeperTest, TheEndOfTheKeeperEndsItsChild) {
  pid_t keeper = start(base::cat("exec sleep ", mark_));
  ASSERT_TRUE(eventually([&] { return marked(mark_) == 1; }));
  kill(keeper, SIGKILL);
  waitpid(keeper, nullptr, 0);
  EXPECT_TRUE(eventually([&] { return marked(mark_) == 0; }));
  std::filesystem::remove(pid_file_);
}

TEST_F(KeeperTest, ATerminationIsPassedOn) {
  pid_t keeper = start(base::cat("trap 'exit 7' TERM; sleep ", mark_, " & wait"));
  ASSERT_TRUE(eventually([&] { return marked(mark_) == 1; }));
  kill(keeper, SIGTERM);
  int status = 0;
  ASSERT_EQ(waitpid(keeper, &status, 0), keeper);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(marked(mark_), 0);
}

}  // namespace
}  // namespace rayo
