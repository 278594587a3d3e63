// What a user loses if these fail: a GPU that is there is not offered, or a driver that hangs takes the node
// with it.
#include "gpu/device.h"

#include <cstdlib>
#include <gtest/gtest.h>

namespace rayo::gpu {
namespace {

using namespace std::chrono_literals;

class Nvml : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("RAYO_GPU_PROBE", RAYO_TEST_GPU_PROBE, 1);
    setenv("RAYO_NVML_PATH", RAYO_TEST_FAKE_NVML, 1);
  }
  void TearDown() override {
    for (const char* name : {"RAYO_GPU_PROBE", "RAYO_NVML_PATH", "RAYO_FAKE_NVML"}) unsetenv(name);
  }
  static DeviceList ask(const char* mode, base::Duration span = 20s) {
    setenv("RAYO_FAKE_NVML", mode, 1);
    return list_devices(base::deadline_after(base::system_clock().now(), span));
  }
};

TEST_F(Nvml, ListsEachDeviceWithItsFigures) {
  DeviceList list = ask("2");
  ASSERT_EQ(list.devices.size(), 2u) << list.reason;
  EXPECT_EQ(list.reason, "");
  const Device& device = list.devices[1];
  EXPECT_EQ(device.index, 1);
  EXPECT_EQ(device.uuid, "GPU-00000000-0000-0000-0000-000000000001");
  EXPECT_EQ(device.model, "NVIDIA H200");
  EXPECT_EQ(device.state, "ok");
  EXPECT_EQ(device.memory_total_bytes, 141ll << 30);
  EXPECT_EQ(device.memory_used_bytes, 2ll << 30);
  EXPECT_EQ(device.compute_major, 9);
  EXPECT_EQ(device.temperature_c, 41);
  EXPECT_DOUBLE_EQ(device.power_w, 75.5);
}

TEST_F(Nvml, SeesMoreProcessesThanItFirstAskedFor) {
  DeviceList list = ask("1");
  ASSERT_EQ(list.devices.size(), 1u) << list.reason;
  ASSERT_EQ(list.devices[0].processes.size(), 70u);
  EXPECT_EQ(list.devices[0].processes[0].memory_bytes, -1) << "NVML does not tell";
  EXPECT_EQ(list.devices[0].processes[69].pid, 1069);
  EXPECT_EQ(list.devices[0].processes[69].memory_bytes, 1 << 20);
}

TEST_F(Nvml, ALostOrHotDeviceIsListedWithItsReason) {
  DeviceList lost = ask("lost");
  ASSERT_EQ(lost.devices.size(), 2u);
  EXPECT_EQ(lost.devices[0].state, "ok");
  EXPECT_EQ(lost.devices[1].state, "sick");
  EXPECT_EQ(lost.devices[1].reason, "GPU is lost (15)");
  DeviceList hot = ask("hot");
  ASSERT_EQ(hot.devices.size(), 2u);
  EXPECT_EQ(hot.devices[1].state, "hot");
  EXPECT_NE(hot.devices[1].reason.find("93 C"), std::string::npos);
}

TEST_F(Nvml, AHangingDriverIsGivenUpAtTheDeadline) {
  auto begin = base::system_clock().now();
  DeviceList list = ask("hang", 300ms);
  EXPECT_TRUE(list.devices.empty());
  EXPECT_NE(list.reason.find("did not answer"), std::string::npos) << list.reason;
  EXPECT_LT(base::system_clock().now() - begin, 10s);
}

TEST_F(Nvml, ACrashingDriverTakesOnlyTheProbe) {
  DeviceList list = ask("crash");
  EXPECT_TRUE(list.devices.empty());
  EXPECT_NE(list.reason.find("signal 6"), std::string::npos) << list.reason;
}

TEST_F(Nvml, NoDeviceAndNoDriverHaveTheirReasons) {
  EXPECT_NE(ask("none").reason.find("no device"), std::string::npos);
  EXPECT_NE(ask("refuse").reason.find("Driver Not Loaded"), std::string::npos);
  setenv("RAYO_NVML_PATH", "/nonexistent/libnvidia-ml.so.1", 1);
  EXPECT_NE(ask("2").reason.find("no NVIDIA driver"), std::string::npos);
  setenv("RAYO_GPU_PROBE", "/nonexistent/rayo-gpu-probe", 1);
  EXPECT_NE(ask("2").reason.find("/nonexistent/rayo-gpu-probe"), std::string::npos);
}

TEST(DeviceJson, RefusesWhatIsNoList) {
  for (const char* text :
       {"", "[]", "{}", "{\"reason\": 1, \"devices\": []}", "{\"reason\": \"\", \"devices\": [{}]}"}) {
    EXPECT_FALSE(parse_devices(text).ok()) << text;
  }
}

}  // namespace
}  // namespace rayo::gpu
