#include "runtime/raylet/spawn.h"

#include <algorithm>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace rayo::raylet {
namespace {

bool holds(const std::vector<pid_t>& children, pid_t pid) { return std::ranges::find(children, pid) != children.end(); }

// A raylet takes more than it was given; what it runs may count on the limit that the user has set.
TEST(SpawnChild, ItHasTheLimitOfFilesThatItIsGiven) {
  int told[2];
  ASSERT_EQ(::pipe2(told, O_CLOEXEC), 0);
  const int shell = ::open("/bin/sh", O_RDONLY | O_CLOEXEC);
  SpawnRequest request;
  request.program_fd = shell;
  request.arguments = {"sh", "-c", "ulimit -Sn; ulimit -Hn"};
  request.out_fd = told[1];
  request.error_fd = 2;
  request.open_files = rlimit{123, 234};
  auto child = spawn_child(request);
  ASSERT_TRUE(child.ok()) << child.status();
  ::waitpid(*child, nullptr, 0);
  char text[32] = {};
  ASSERT_GT(::read(told[0], text, sizeof text - 1), 0);
  EXPECT_STREQ(text, "123\n234\n");
  for (int fd : {told[0], told[1], shell}) ::close(fd);
}

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
