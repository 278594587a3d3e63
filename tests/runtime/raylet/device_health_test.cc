// If these fail: work is placed on a GPU that has fallen off the bus, or one that is well again is never used.
#include "runtime/raylet/device_health.h"

#include <gtest/gtest.h>

namespace rayo::raylet {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

gpu::Device device(int index, std::string state = "ok", int64_t used = kGiB) {
  return {.index = index,
          .uuid = "GPU-" + std::to_string(index),
          .model = "H200",
          .state = std::move(state),
          .memory_total_bytes = 141 * kGiB,
          .memory_used_bytes = used};
}

class DeviceHealthTest : public testing::Test {
 protected:
  bool update(std::vector<gpu::Device> devices, std::string reason = "") {
    return health_.update({std::move(devices), std::move(reason)},
                          [this](const std::string& uuid) { return uuid == leased_; });
  }
  std::vector<bool> usable() const {
    std::vector<bool> out;
    for (const auto& one : health_.offered()) out.push_back(one.usable);
    return out;
  }
  std::string leased_;
  DeviceHealth health_{{device(0), device(1)},
                       {{.uuid = "GPU-0", .memory_bytes = 140 * kGiB}, {.uuid = "GPU-1", .memory_bytes = 140 * kGiB}}};
};

TEST_F(DeviceHealthTest, NothingNewChangesNothing) {
  EXPECT_FALSE(update({device(0), device(1)}));
  EXPECT_EQ(usable(), (std::vector<bool>{true, true}));
}

TEST_F(DeviceHealthTest, OneThatIsLostOrHotLeavesAndComesBack) {
  gpu::Device lost{.index = 1, .state = "sick", .reason = "GPU is lost (15)"};  // it tells no UUID any more
  EXPECT_TRUE(update({device(0), lost}));
  EXPECT_EQ(usable(), (std::vector<bool>{true, false}));
  EXPECT_EQ(health_.listed()[1].uuid, "GPU-1");
  EXPECT_EQ(health_.listed()[1].state, "sick");
  EXPECT_EQ(health_.listed()[1].reason, "GPU is lost (15)");
  EXPECT_TRUE(update({device(0), device(1)}));
  EXPECT_EQ(usable(), (std::vector<bool>{true, true}));
  EXPECT_TRUE(update({device(0), device(1, "hot")}));
  EXPECT_EQ(usable(), (std::vector<bool>{true, false}));
}

TEST_F(DeviceHealthTest, OneThatIsListedNoMoreSaysSo) {
  EXPECT_TRUE(update({device(1)}));
  EXPECT_EQ(usable(), (std::vector<bool>{false, true}));
  EXPECT_EQ(health_.listed()[0].state, "sick");
  EXPECT_NE(health_.listed()[0].reason.find("no more"), std::string::npos);
}

TEST_F(DeviceHealthTest, ADriverThatDoesNotAnswerTwiceMakesAllSick) {
  EXPECT_FALSE(update({}, "it hangs"));
  EXPECT_EQ(usable(), (std::vector<bool>{true, true}));
  EXPECT_TRUE(update({}, "it hangs"));
  EXPECT_EQ(usable(), (std::vector<bool>{false, false}));
  EXPECT_EQ(health_.listed()[0].reason, "it hangs");
  EXPECT_TRUE(update({device(0), device(1)}));
  EXPECT_EQ(usable(), (std::vector<bool>{true, true}));
}

TEST_F(DeviceHealthTest, StrangersMemoryIsSubtractedWhereNobodyOfOursUsesTheDevice) {
  leased_ = "GPU-0";
  EXPECT_TRUE(update({device(0, "ok", 100 * kGiB), device(1, "ok", 41 * kGiB)}));
  EXPECT_EQ(health_.offered()[0].memory_bytes, 140 * kGiB);
  EXPECT_EQ(health_.offered()[1].memory_bytes, 100 * kGiB);
}

}  // namespace
}  // namespace rayo::raylet
