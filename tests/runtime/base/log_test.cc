// What a user loses if these fail: a daemon that runs for a year fills the disk, or its last words are cut.
#include "runtime/base/log.h"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <unistd.h>

namespace rayo::base {
namespace {

TEST(Log, AFileKeepsItsLastPart) {
  const std::string path = ::testing::TempDir() + "rayo-log-" + std::to_string(getpid());
  const int before = dup(STDERR_FILENO);
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);  // as `rayo start` opens it
  dup2(file, STDERR_FILENO);
  close(file);
  constexpr int64_t kMost = 64 << 10;
  init_log("test", kMost);
  uintmax_t largest = 0;
  for (int i = 0; i < 10'000; ++i) {
    log().info("event {} of many", i);
    largest = std::max(largest, std::filesystem::file_size(path));
  }
  dup2(before, STDERR_FILENO);
  close(before);
  init_log("rayo");
  std::ifstream stream(path);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  std::filesystem::remove(path);
  EXPECT_LE(largest, kMost + kMost / 8);
  EXPECT_TRUE(text.starts_with("[rayo: what stood here before was cut")) << text.substr(0, 100);
  EXPECT_TRUE(text.ends_with("event 9999 of many\n"));
  EXPECT_NE(text.find("event 9800 of many\n"), std::string::npos) << "its last part is whole";
}

}  // namespace
}  // namespace rayo::base
