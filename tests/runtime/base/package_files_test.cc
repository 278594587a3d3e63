// If this fails: a program is run that is not whole, or a head's or node's disk keeps what was never finished.
#include "runtime/base/package_files.h"

#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <iterator>
#include <stdlib.h>
#include <string>
#include <vector>

namespace rayo::base {
namespace {

class PackageFilesTest : public testing::Test {
 protected:
  PackageFilesTest() {
    char name[] = "/tmp/rayo-packages-XXXXXX";
    root_ = mkdtemp(name);
    files_ = std::make_unique<PackageFiles>(root_ / "packages");
    EXPECT_TRUE(files_->prepare().ok());
  }
  ~PackageFilesTest() override { std::filesystem::remove_all(root_); }

  Fd program(const std::string& content) const {
    EXPECT_TRUE(write_private_file(root_ / "program", content).ok());
    return Fd(::open((root_ / "program").c_str(), O_RDONLY | O_CLOEXEC));
  }
  auto files_there() const {
    return std::distance(std::filesystem::directory_iterator(root_ / "packages"),
                         std::filesystem::directory_iterator());
  }

  Path root_;
  std::unique_ptr<PackageFiles> files_;
};

TEST_F(PackageFilesTest, IsThereOnlyWhenItIsWhole) {
  const std::string content(3 * kPackagePieceBytes + 17, 'p');
  const PackageId package = *package_hash(program(content).get());
  auto part = files_->begin(package);
  ASSERT_TRUE(part.ok()) << part.status();
  ASSERT_TRUE((*part)->write(0, content.substr(0, 100)).ok());
  EXPECT_EQ((*part)->write(99, "x").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ((*part)->finish().code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(files_->has(package));
  ASSERT_TRUE((*part)->write(100, content.substr(100)).ok());
  ASSERT_TRUE((*part)->finish().ok());
  EXPECT_TRUE(files_->has(package));
  auto file = files_->open(package);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(*package_hash(file->get()), package);
}

TEST_F(PackageFilesTest, TwoThatBringTheSameOneDoNotMeet) {
  const std::string content = "a program";
  const PackageId package = *package_hash(program(content).get());
  auto one = files_->begin(package), other = files_->begin(package), third = files_->begin(package);
  ASSERT_TRUE(one.ok() && other.ok() && third.ok());
  ASSERT_TRUE((*one)->write(0, content).ok());
  ASSERT_TRUE((*other)->write(0, content.substr(0, 3)).ok());
  ASSERT_TRUE((*one)->finish().ok());
  auto open = files_->open(package);
  ASSERT_TRUE((*other)->write(3, content.substr(3)).ok());
  ASSERT_TRUE((*other)->finish().ok());
  third->reset();
  EXPECT_EQ(*package_hash(open->get()), package) << "who has it open keeps it";
  EXPECT_EQ(files_there(), 1);
}

TEST_F(PackageFilesTest, WhatAKilledProcessHadNotFinishedGoes) {
  const Fd file = program("a program");
  const PackageId package = *package_hash(file.get());
  ASSERT_TRUE(files_->copy(package, file.get()).ok());
  ASSERT_TRUE(write_private_file(root_ / "packages" / (package.hex() + ".part-1"), "a pro").ok());
  ASSERT_TRUE(files_->prepare().ok());
  EXPECT_EQ(files_there(), 1);
  EXPECT_TRUE(files_->has(package));
}

// Each build of a program is another package.
TEST_F(PackageFilesTest, OfProgramsThatNobodyRunsTheLastOnesStay) {
  std::vector<PackageId> packages;
  const auto begun = std::filesystem::file_time_type::clock::now();
  for (int i = 0; i < 100; ++i) {
    const Fd file = program("build " + std::to_string(i));
    packages.push_back(*package_hash(file.get()));
    ASSERT_TRUE(files_->copy(packages.back(), file.get()).ok());
    std::filesystem::last_write_time(root_ / "packages" / packages.back().hex(), begun - std::chrono::hours(100 - i));
  }
  ASSERT_TRUE(write_private_file(root_ / "packages" / (packages[0].hex() + ".part-1"), "on its way").ok());
  EXPECT_TRUE(files_->use(packages[1]));
  EXPECT_FALSE(files_->use(PackageId{1, 2}));
  files_->trim({packages[0]});
  EXPECT_EQ(files_there(), 2 + static_cast<int>(kIdlePackages));
  EXPECT_TRUE(files_->has(packages[0])) << "a job runs it";
  EXPECT_TRUE(files_->has(packages[1])) << "it was used just now";
  EXPECT_FALSE(files_->has(packages[2]));
  EXPECT_FALSE(files_->has(packages[36]));
  EXPECT_TRUE(files_->has(packages[37]));
  EXPECT_TRUE(files_->has(packages[99]));
  const Path large = root_ / "packages" / packages[98].hex();
  std::filesystem::resize_file(large, kIdlePackageBytes);  // sparse
  std::filesystem::last_write_time(large, begun - std::chrono::hours(2));
  files_->trim({packages[0]});
  EXPECT_EQ(files_there(), 4)
      << "the one that runs, what is on its way, and two that were used later than the large one";
}

}  // namespace
}  // namespace rayo::base
