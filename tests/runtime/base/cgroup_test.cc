// If these fail: a node offers more memory than its container has, or a worker gets no group of its own where it could.
#include "runtime/base/cgroup.h"

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>

namespace rayo::base {
namespace {

class CgroupTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/rayo-cgroup-XXXXXX";
    root_ = mkdtemp(pattern);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& file, const std::string& text = "") {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  Path root_;
};

TEST_F(CgroupTest, VersionTwoAlone) {
  write("proc/self/cgroup", "0::/user.slice/one\n");
  write("sys/fs/cgroup/cgroup.controllers");
  write("sys/fs/cgroup/user.slice/one/cgroup.procs");
  EXPECT_EQ(own_cgroup("", root_), root_ / "sys/fs/cgroup/user.slice/one");
  EXPECT_EQ(own_cgroup("memory", root_), Path());
  EXPECT_EQ(divisible_cgroups(root_), std::vector<Path>{root_ / "sys/fs/cgroup/user.slice/one"});
}

TEST_F(CgroupTest, BothVersionsSideBySide) {
  write("proc/self/cgroup", "9:name=systemd:/\n5:cpu,cpuacct:/\n4:memory:/box/1\n0::/\n");
  write("sys/fs/cgroup/unified/cgroup.procs");
  write("sys/fs/cgroup/memory/box/1/cgroup.procs");
  EXPECT_EQ(own_cgroup("", root_), root_ / "sys/fs/cgroup/unified");
  EXPECT_EQ(own_cgroup("memory", root_), root_ / "sys/fs/cgroup/memory/box/1");
  EXPECT_EQ(divisible_cgroups(root_).size(), 2u);
}

TEST_F(CgroupTest, InAContainerTheMountIsTheGroup) {
  write("proc/self/cgroup", "4:memory:/docker/4f2a\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824");
  EXPECT_EQ(own_cgroup("memory", root_), root_ / "sys/fs/cgroup/memory");
  EXPECT_TRUE(divisible_cgroups(root_).empty()) << "no process can be put there";
  EXPECT_TRUE(own_cgroup("", root_).empty());
}

}  // namespace
}  // namespace rayo::base
