// What a user loses if this fails: `rayo version` and the handshake of nodes name another version than the
// package does.
#include "runtime/base/version.h"

#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

namespace rayo::base {
namespace {

TEST(Version, IsTheProjects) {
  std::ifstream file(RAYO_TEST_SOURCE_DIR "/CMakeLists.txt");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find("project(rayo VERSION " + std::string(kVersion) + " "), std::string::npos);
}

}  // namespace
}  // namespace rayo::base
