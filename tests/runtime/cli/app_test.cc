// What a user loses if these fail: a command that does not exist yet looks as if it did something, or exit
// codes mislead scripts.
#include "runtime/cli/app.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

#include "runtime/rpc/listen.h"

namespace rayo::cli {
namespace {

struct Ran {
  int code;
  std::string out, err;
};

class App : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/rayo-app-XXXXXX";
    root_ = mkdtemp(pattern);
    setenv("RAYO_HOME", (root_ / "home").c_str(), 1);
    setenv("RAYO_RUNTIME_DIR", (root_ / "run").c_str(), 1);
    for (const char* name : {"RAYO_ADDRESS", "RAYO_TOKEN", "RAYO_TOKEN_FILE"}) unsetenv(name);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  static Ran rayo(const Arguments& arguments) {
    std::ostringstream out, err;
    Terminal terminal(out, err, false);
    int code = run(arguments, terminal);
    return {code, out.str(), err.str()};
  }
  std::filesystem::path root_;
};

TEST_F(App, HelpNamesEveryCommandThatExistsAndNoOther) {
  Ran help = rayo({"help"});
  EXPECT_EQ(help.code, kDone);
  for (const char* name : {"start", "stop", "status", "list", "why", "logs", "config", "doctor", "token", "version"}) {
    EXPECT_NE(help.out.find(std::string("rayo ") + name), std::string::npos) << name;
    Ran own = rayo({"help", name});
    EXPECT_EQ(own.code, kDone) << name;
    EXPECT_NE(own.out.find(std::string("rayo ") + name), std::string::npos) << own.out;
  }
  for (const char* name : {"rayo memory", "rayo network", "rayo drain", "--rotate", "--resume"}) {
    EXPECT_EQ(help.out.find(name), std::string::npos) << name;
  }
}

TEST_F(App, HelpOfHelpIsTheOverview) { EXPECT_EQ(rayo({"help", "help"}).out, rayo({"help"}).out); }

TEST_F(App, HelpNamesAProgramOfItsOwnWhereItIsInstalled) {
  const std::filesystem::path program = root_ / "rayo-serve";
  std::filesystem::copy_file("/bin/true", program);
  const std::string before = std::getenv("PATH");
  setenv("PATH", (root_.string() + ":" + before).c_str(), 1);
  EXPECT_NE(rayo({"help"}).out.find("rayo serve MODEL"), std::string::npos);
  setenv("PATH", before.c_str(), 1);
}

TEST_F(App, WhatIsPlannedOrUnknownExitsTwo) {
  for (const Arguments& arguments : std::vector<Arguments>{{"memory"},
                                                           {"network"},
                                                           {"drain", "x"},
                                                           {"nonsense"},
                                                           {"--nonsense"},
                                                           {"raylet"},
                                                           {"help", "raylet"},
                                                           {"help", "nonsense"},
                                                           {"token", "--rotate"},
                                                           {"list", "groups"},
                                                           {"list", "nonsense"},
                                                           {"list"},
                                                           {"why"}}) {
    Ran ran = rayo(arguments);
    EXPECT_EQ(ran.code, kWrongUse) << arguments[0];
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 2) << ran.err;
  }
}

TEST_F(App, WithoutAClusterReadersExitThreeAndNameTheLineThatStartsOne) {
  for (const Arguments& arguments : std::vector<Arguments>{{"status"},
                                                           {"status", "--json"},
                                                           {"list", "nodes"},
                                                           {"why", "001122"},
                                                           {"logs"},
                                                           {"token"},
                                                           {"stop"},
                                                           {"stop", "--all"}}) {
    Ran ran = rayo(arguments);
    EXPECT_EQ(ran.code, kNoCluster) << arguments[0] << ran.err;
    EXPECT_NE(ran.err.find("try: rayo start --head"), std::string::npos) << ran.err;
    EXPECT_EQ(ran.out, "");
  }
}

TEST_F(App, AnotherMachineNeedsTheToken) {
  auto listening = rpc::listen_on({"127.0.0.1"}, 0);
  ASSERT_TRUE(listening.ok()) << listening.status();
  const std::string address = "127.0.0.1:" + std::to_string(listening->port);
  Ran ran = rayo({"status", "--address", address});
  EXPECT_EQ(ran.code, kRefused) << ran.err;
  EXPECT_NE(ran.err.find("RAYO_TOKEN"), std::string::npos) << ran.err;
  listening->sockets.clear();
  ran = rayo({"status", "--address", address});  // where nobody answers, the token is not what is missing
  EXPECT_EQ(ran.code, kNoCluster) << ran.err;
  EXPECT_NE(ran.err.find("cannot connect to " + address + ": connection refused"), std::string::npos) << ran.err;
}

TEST_F(App, ConfigShowsTheDefaultsWithoutACluster) {
  Ran ran = rayo({"config"});
  EXPECT_EQ(ran.code, kDone) << ran.err;
  EXPECT_NE(ran.out.find("nodes.suspect_after"), std::string::npos);
  std::filesystem::create_directory(root_ / "home");
  std::ofstream(root_ / "home" / "rayo.toml") << "[nodes]\nsuspect_after = \"3s\"\n";
  const std::string own = rayo({"config"}).out;
  EXPECT_NE(own.find("3s"), std::string::npos) << own;
  EXPECT_NE(own.find("home/rayo.toml"), std::string::npos) << own;
  Ran wrong = rayo({"config", "--config", (root_ / "none.toml").string()});
  EXPECT_EQ(wrong.code, kWrongUse);
}

TEST_F(App, VersionIsPlainAndJson) {
  EXPECT_EQ(rayo({"--version"}).out, rayo({"version"}).out);
  EXPECT_NE(rayo({"version", "--json"}).out.find("\"schema\": 1"), std::string::npos);
}

}  // namespace
}  // namespace rayo::cli
