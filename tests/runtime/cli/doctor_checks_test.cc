// What a user loses if these fail: `rayo doctor` calls a machine ready that is not, or names no mend.
#include "runtime/cli/doctor_checks.h"

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>

namespace rayo::cli {
namespace {

namespace fs = std::filesystem;

class Doctor : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/rayo-doctor-XXXXXX";
    root_ = mkdtemp(pattern);
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  base::Path root_;
};

TEST_F(Doctor, ReadsTheMemoryLimitOfBothKindsOfCgroup) {
  EXPECT_EQ(check_memory_cgroup(root_).health, Health::kGood);
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(check_memory_cgroup(root_).text, "no limit") << "version 1 says it with a huge number";
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "134217728\n");
  Finding tight = check_memory_cgroup(root_);
  EXPECT_EQ(tight.health, Health::kBad);
  EXPECT_NE(tight.text.find("128.0 MiB"), std::string::npos) << tight.text;
  EXPECT_FALSE(tight.mend.empty());
  write("sys/fs/cgroup/memory.max", "8589934592\n");
  EXPECT_EQ(check_memory_cgroup(root_).health, Health::kGood);
}

TEST_F(Doctor, SaysWhetherWorkersGetControlGroupsOfTheirOwn) {
  Finding none = check_worker_groups(root_);
  EXPECT_EQ(none.health, Health::kNotice);
  EXPECT_FALSE(none.mend.empty());
  write("proc/self/cgroup", "0::/one\n");
  write("sys/fs/cgroup/cgroup.controllers", "");
  write("sys/fs/cgroup/one/cgroup.procs", "");
  Finding made = check_worker_groups(root_);
  EXPECT_EQ(made.health, Health::kGood);
  EXPECT_NE(made.text.find("cgroup/one"), std::string::npos) << made.text;
}

TEST_F(Doctor, HugePagesMissingAreANoticeNotAFault) {
  write("sys/kernel/mm/transparent_hugepage/shmem_enabled", "always within_size advise [never] deny force\n");
  write("proc/sys/vm/nr_hugepages", "0\n");
  EXPECT_EQ(check_huge_pages(root_).health, Health::kNotice);
  write("proc/sys/vm/nr_hugepages", "512\n");
  EXPECT_EQ(check_huge_pages(root_).health, Health::kGood);
}

TEST_F(Doctor, FilesOfANodeAreItsHardLimitAndThoseOfAProgramItsSoftOne) {
  EXPECT_EQ(check_descriptors(1024, 524288).health, Health::kGood);
  EXPECT_EQ(check_descriptors(1024, 1024).health, Health::kBad);
  Finding tight = check_descriptors(256, 524288);
  EXPECT_EQ(tight.health, Health::kNotice);
  EXPECT_NE(tight.text.find("128 others"), std::string::npos) << tight.text;
  EXPECT_NE(tight.mend.find("ulimit -Sn 1024"), std::string::npos) << tight.mend;
}

TEST_F(Doctor, AnOldProcessorIsNamed) {
  write("proc/cpuinfo", "flags : fpu sse sse2\n");
  EXPECT_EQ(check_processor(root_).health, Health::kBad);
  write("proc/cpuinfo", "flags : fpu ssse3 sse4_2 popcnt\n");
  EXPECT_EQ(check_processor(root_).health, Health::kGood);
}

TEST_F(Doctor, ADirectoryThatIsNotThereYetIsJudgedByItsParent) {
  Finding good = check_directory("runtime", root_ / "a" / "b");
  EXPECT_NE(good.health, Health::kBad) << good.text;
  EXPECT_NE(good.text.find((root_ / "a" / "b").string()), std::string::npos);
}

TEST(DoctorHere, EveryFindingThatIsNotGoodHasAMend) {
  for (const Finding& finding : check_machine()) {
    EXPECT_FALSE(finding.text.empty()) << finding.check;
    EXPECT_EQ(finding.health == Health::kGood, finding.mend.empty()) << finding.check;
  }
}

}  // namespace
}  // namespace rayo::cli
