#include "runtime/raylet/spawn.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace rayo::raylet {
namespace {

bool holds(const std::vector<pid_t>& children, pid_t pid) { return std::ranges::find(children, pid) != children.end(); }

// What a worker leaves behind when it ends: the raylet must see it to end it.
TEST(OwnChildren, HoldTheOrphansBelowThisProcess) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  int told[2];
  ASSERT_EQ(::pipe(told), 0);
  std::thread other([&] {  // whichever thread the line of forks began with
    const pid_t child = ::fork();
    if (child == 0) {
      const pid_t orphan = ::fork();
      if (orphan == 0) {
        ::pause();
        ::_exit(0);
      }
      (void)!::write(told[1], &orphan, sizeof orphan);
      ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
  });
  pid_t orphan = 0;
  ASSERT_EQ(::read(told[0], &orphan, sizeof orphan), static_cast<ssize_t>(sizeof orphan));
  other.join();
  EXPECT_TRUE(holds(own_children(), orphan));
  ::kill(orphan, SIGKILL);
  ::waitpid(orphan, nullptr, 0);
  EXPECT_FALSE(holds(own_children(), orphan));
  ::close(told[0]);
  ::close(told[1]);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace
}  // namespace rayo::raylet
