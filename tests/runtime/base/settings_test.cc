// What a user loses if these fail: a flag of `rayo start` does not reach the daemon, or its reason for not
// starting is lost.
#include "runtime/base/settings.h"

#include <array>
#include <cstdlib>
#include <gtest/gtest.h>
#include <unistd.h>

namespace rayo::base {
namespace {

class SettingsFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/rayo-settings-XXXXXX";
    dir_ = mkdtemp(pattern);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  Path dir_;
};

TEST_F(SettingsFiles, TheHeadReadsWhatStartWrote) {
  HeadSettings out{.session_dir = "/run/x",
                   .token_file = "/h/t",
                   .name = "alpha",
                   .bind = {.host = "::1", .port = 7, .port_fixed = true},
                   .http_port = 0,
                   .local = true,
                   .config_file = "/etc/rayo.toml",
                   .owner_pid = 12};
  ASSERT_TRUE(write_settings(dir_ / "s", out).ok());
  auto in = read_head_settings(dir_ / "s");
  ASSERT_TRUE(in.ok()) << in.status();
  EXPECT_EQ(in->session_dir, "/run/x");
  EXPECT_EQ(in->bind.host, "::1");
  EXPECT_EQ(in->bind.port, 7);
  EXPECT_TRUE(in->bind.port_fixed && in->local && !in->http_port_fixed);
  EXPECT_EQ(in->http_port, 0);
  EXPECT_EQ(in->config_file, "/etc/rayo.toml");
  EXPECT_EQ(in->owner_pid, 12);
}

TEST_F(SettingsFiles, TheRayletReadsWhatStartWrote) {
  RayletSettings out{.node_dir = "/n",
                     .head_addresses = {"a:1", "b:2"},
                     .num_cpus = 1.5,
                     .num_gpus = 0,
                     .memory_bytes = 1ll << 40,
                     .resources = {{"tpu", 2}},
                     .labels = {{"zone", "a"}, {"disk", "ssd"}},
                     .python = "/opt/python3"};
  ASSERT_TRUE(write_settings(dir_ / "s", out).ok());
  auto in = read_raylet_settings(dir_ / "s");
  ASSERT_TRUE(in.ok()) << in.status();
  EXPECT_EQ(in->head_addresses, out.head_addresses);
  EXPECT_EQ(in->num_cpus, 1.5);
  EXPECT_EQ(in->num_gpus, 0);
  EXPECT_EQ(in->memory_bytes, 1ll << 40);
  EXPECT_EQ(in->object_store_bytes, -1);
  EXPECT_EQ(in->resources, out.resources);
  EXPECT_EQ(in->labels, out.labels);
  EXPECT_EQ(in->python, out.python);
}

TEST_F(SettingsFiles, WhatIsNoSettingsFileIsNamed) {
  ASSERT_TRUE(write_private_file(dir_ / "s", "{\"name\": 3}").ok());
  auto in = read_head_settings(dir_ / "s");
  EXPECT_EQ(in.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(read_raylet_settings(dir_ / "none").status().code(), absl::StatusCode::kNotFound);
}

TEST(ReadyPipe, CarriesWhyADaemonEnds) {
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(pipe(pipe_ends.data()), 0);
  tell_ready(
      pipe_ends[1],
      {.exit_code = 3, .error = "cannot listen: port 6379 is taken", .next_step = "--port 0", .notes = {"a \"b\"\n"}});
  char buffer[1024];
  ssize_t got = read(pipe_ends[0], buffer, sizeof buffer);
  ASSERT_GT(got, 0);
  EXPECT_EQ(read(pipe_ends[0], buffer + got, 1), 0) << "closed after one line";
  close(pipe_ends[0]);
  auto ready = read_ready({buffer, static_cast<size_t>(got)});
  ASSERT_TRUE(ready.ok()) << ready.status();
  EXPECT_FALSE(ready->ok);
  EXPECT_EQ(ready->exit_code, 3);
  EXPECT_EQ(ready->error, "cannot listen: port 6379 is taken");
  EXPECT_EQ(ready->notes, std::vector<std::string>{"a \"b\"\n"});
}

TEST(ReadyPipe, NoiseIsAnError) { EXPECT_FALSE(read_ready("Segmentation fault").ok()); }

}  // namespace
}  // namespace rayo::base
