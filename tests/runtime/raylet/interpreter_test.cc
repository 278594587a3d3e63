// If these fail: a node runs Python's workers by another interpreter than its owner said, or by none although it has one.
#include "runtime/raylet/interpreter.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

namespace rayo::raylet {
namespace {

namespace fs = std::filesystem;

class Interpreter : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/rayo-interpreter-XXXXXX";
    ASSERT_TRUE(mkdtemp(name));
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string program(const std::string& name) const {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "#!/bin/sh\n";
    fs::permissions(path, fs::perms::owner_all);
    return path.string();
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  fs::path folder_;
};

TEST(OfPython, AreTheWorkersOfAPythonDriverAlone) {
  EXPECT_TRUE(of_python({"/usr/bin/python3", "-m", "rayo._worker"}));
  EXPECT_FALSE(of_python({"/usr/bin/python3", "script.py"}));
  EXPECT_FALSE(of_python({"./counter"}));
  EXPECT_FALSE(of_python({}));
}

TEST_F(Interpreter, TheNodesOwnComesBeforeTheDriversAndThatBeforePath) {
  const std::string own = program("own/python3.11"), drivers = program("venv/python"), on_path = program("bin/python3");
  EXPECT_EQ(*find_interpreter(own, drivers, path("bin")), own);
  EXPECT_EQ(*find_interpreter("", drivers, path("bin")), drivers);
  EXPECT_EQ(*find_interpreter("", path("gone/python"), path("empty") + ":" + path("bin")), on_path);
}

TEST_F(Interpreter, WhereThereIsNoneItSaysWhereItWasLookedFor) {
  auto none = find_interpreter("", "/gone/python", path("empty"));
  EXPECT_EQ(none.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(none.status().message().find("neither the driver's /gone/python nor a python3 on PATH"), std::string::npos);
  program("bin/python3");
  auto gone = find_interpreter(path("own"), "/gone/python", path("bin"));
  EXPECT_NE(gone.status().message().find(path("own") + " is not there any more"), std::string::npos)
      << "another one than was asked for would run with other packages";
}

}  // namespace
}  // namespace rayo::raylet
