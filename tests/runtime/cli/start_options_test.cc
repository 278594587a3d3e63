// What a user loses if these fail: a flag of `rayo start` is taken for something else, or a typo is
// swallowed.
#include "runtime/cli/start_options.h"

#include <gtest/gtest.h>
#include <sstream>

namespace rayo::cli {
namespace {

struct Read {
  StartRequest request;
  std::string out, err;
};

Read read(const Arguments& arguments) {
  std::ostringstream out, err;
  Terminal terminal(out, err, false);
  StartRequest request = read_start(arguments, terminal);
  return {std::move(request), out.str(), err.str()};
}

TEST(StartOptions, TakesEveryFlagOfTheContract) {
  Read result = read({"--head",
                      "--port",
                      "0",
                      "--http-port",
                      "9000",
                      "--name",
                      "alpha",
                      "--node-port",
                      "7001",
                      "--interface",
                      "eth1",
                      "--advertise",
                      "gate.lan:7000",
                      "--data-interface",
                      "eth2",
                      "--num-cpus",
                      "0.5",
                      "--num-gpus",
                      "2",
                      "--memory",
                      "8GiB",
                      "--object-store-memory",
                      "512MiB",
                      "--resources",
                      "{\"tpu\": 2, \"licence\": 0.25}",
                      "--labels",
                      "zone=a,disk=ssd",
                      "--python",
                      "sh",
                      "--token-file",
                      "t",
                      "--config",
                      "c",
                      "--block"});
  ASSERT_FALSE(result.request.done) << result.err;
  const StartOptions& options = result.request.options;
  EXPECT_TRUE(options.head && options.block && !options.local && !options.json);
  EXPECT_EQ(options.port.number, 0);
  EXPECT_FALSE(options.port.fixed) << "0 means any free one";
  EXPECT_EQ(options.http_port.number, 9000);
  EXPECT_TRUE(options.http_port.fixed && options.node_port.fixed);
  EXPECT_EQ(options.num_cpus, 0.5);
  EXPECT_EQ(options.num_gpus, 2);
  EXPECT_EQ(options.memory_bytes, 8ll << 30);
  EXPECT_EQ(options.object_store_bytes, 512ll << 20);
  EXPECT_EQ(options.resources.size(), 2u);
  EXPECT_EQ(options.labels[1].second, "ssd");
  EXPECT_TRUE(options.python.starts_with("/") && options.python.ends_with("/sh")) << options.python;
  EXPECT_EQ(options.advertise, "gate.lan:7000");
}

TEST(StartOptions, AdvertiseTakesHostsWithAndWithoutAPort) {
  for (const char* host : {"gate.lan", "gate.lan:7000", "10.0.0.5", "fd00::7", "[fd00::7]", "[fd00::7]:7000"}) {
    Read result = read({"--head", "--advertise", host});
    EXPECT_FALSE(result.request.done) << host << ": " << result.err;
    EXPECT_EQ(result.request.options.advertise, host);
  }
}

TEST(StartOptions, DefaultsAreTheContracts) {
  Read result = read({"--head"});
  ASSERT_FALSE(result.request.done) << result.err;
  const StartOptions& options = result.request.options;
  EXPECT_EQ(options.port.number, 6379);
  EXPECT_EQ(options.node_port.number, 6380);
  EXPECT_EQ(options.http_port.number, 8265);
  EXPECT_FALSE(options.port.fixed || options.node_port.fixed || options.http_port.fixed);
  EXPECT_EQ(options.num_cpus, -1);
  EXPECT_EQ(options.num_gpus, -1);
}

TEST(StartOptions, AListOfHeadsIsTaken) {
  Read result = read({"--address", "10.0.0.5:6379,[fe80::1]:6379"});
  ASSERT_FALSE(result.request.done) << result.err;
  EXPECT_EQ(result.request.options.address_text(), "10.0.0.5:6379,[fe80::1]:6379");
}

TEST(StartOptions, WrongUseIsTwoLinesAndExitCodeTwo) {
  const std::vector<Arguments> wrong = {
      {},
      {"--head", "--address", "a:1"},
      {"--address", "nonsense"},
      {"--head", "--port", "70000"},
      {"--head", "--port", "x"},
      {"--head", "--num-cpus", "-1"},
      {"--head", "--num-cpus", "many"},
      {"--head", "--num-gpus", "1.5"},
      {"--head", "--memory", "8 gigs"},
      {"--head", "--num-cpus", "nan"},
      {"--head", "--num-cpus", "1e308"},
      {"--head", "--num-cpus", "1e999"},
      {"--head", "--memory", "1000TiB"},
      {"--head", "--object-store-memory", ""},
      {"--head", "--object-store-memory", "0"},
      {"--head", "--object-store-memory", "16777215"},
      {"--head", "--resources", "{tpu: 2}"},
      {"--head", "--resources", "[]"},
      {"--head", "--resources", "{\"tpu\": \"two\"}"},
      {"--head", "--resources", "{\"tpu\": -1}"},
      {"--head", "--resources", "{\"tpu\": 1e308}"},
      {"--head", "--resources", "{\"tpu\": 1, \"t\\u0070u\": 2}"},
      {"--head", "--resources", "{\"a\\\"b\": 1, \"c\": 2, \"a\\\"b\": 1}"},
      {"--head", "--resources", "{\"cpu\": 1}"},
      {"--head", "--labels", "zone"},
      {"--head", "--python", "/nowhere/python3"},
      {"--head", "--labels", "zone=a,zone=b"},
      {"--head", "--labels", "zone=\xff"},
      {"--head", "--local", "--interface", "eth0"},
      {"--head", "--node-ip", "1.2.3.4", "--interface", "eth0"},
      {"--head", "--resume", "alpha"},
      {"--head", "--advertise", "a b"},
      {"--head", "--advertise", "a:1,b:2"},
      {"--head", "--advertise", "a:port"},
      {"--head", "--advertise", "[fd00::7"},
      {"--address", "a:1", "--port", "7"},
      {"--head", "--unknown"},
      {"--head", "stray"},
  };
  for (const Arguments& arguments : wrong) {
    Read result = read(arguments);
    std::string shown = ::testing::PrintToString(arguments);
    ASSERT_TRUE(result.request.done) << shown;
    EXPECT_EQ(*result.request.done, kWrongUse) << shown;
    EXPECT_EQ(result.out, "") << shown;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 2) << shown << result.err;
    EXPECT_EQ(result.err.rfind("rayo: ", 0), 0u) << result.err;
    EXPECT_NE(result.err.find("\ntry: "), std::string::npos) << result.err;
  }
}

TEST(StartOptions, HelpNamesTheFlagsButNotWhatIsPlanned) {
  Read result = read({"--help"});
  ASSERT_TRUE(result.request.done);
  EXPECT_EQ(*result.request.done, kDone);
  for (const char* flag :
       {"--head", "--address", "--num-gpus", "--data-interface", "--object-store-memory", "--block"}) {
    EXPECT_NE(result.out.find(flag), std::string::npos) << flag;
  }
  EXPECT_EQ(result.out.find("--resume"), std::string::npos);
  EXPECT_EQ(result.out.find("--owner-pid"), std::string::npos);
}

}  // namespace
}  // namespace rayo::cli
