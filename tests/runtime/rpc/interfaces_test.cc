// If these fail, `rayo start --head` listens where no other machine comes by, or does not say what it chose.
#include "runtime/rpc/interfaces.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace rayo::rpc {
namespace {

constexpr std::string_view kRoutes =
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
    "wlan0\t00000000\t0102A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n"
    "eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
    "eth1\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
    "tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\n";

const Interface kLoopback{"lo", "127.0.0.1", true, false};
const Interface kEth0{"eth0", "192.168.0.5", false, true};
const Interface kDocker{"docker0", "172.17.0.1", false, false};

TEST(DefaultRoute, IsTheOneOfLeastMetric) {
  EXPECT_EQ(default_route_interface(kRoutes), "eth0");
  EXPECT_EQ(default_route_interface(""), "");
  EXPECT_EQ(default_route_interface("Iface\nnonsense 00000000\n"), "");
}

TEST(ChooseInterface, TakesTheDefaultRouteAndNamesTheOthers) {
  auto choice = choose_interface({kLoopback, kDocker, kEth0}, "");
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->chosen.address, "192.168.0.5");
  EXPECT_EQ(choice->why, "eth0, of the default route; also up: docker0 172.17.0.1");
}

TEST(ChooseInterface, WithoutADefaultRoute) {
  EXPECT_EQ(choose_interface({kLoopback, kDocker}, "")->why, "docker0, there is no default route");
  EXPECT_EQ(choose_interface({kLoopback}, "")->why, "lo, no other is up");
  EXPECT_EQ(choose_interface({}, "").status().code(), absl::StatusCode::kNotFound);
}

TEST(ChooseInterface, AskedForByName) {
  EXPECT_EQ(choose_interface({kLoopback, kDocker, kEth0}, "docker0")->chosen.address, "172.17.0.1");
  auto missing = choose_interface({kLoopback, kEth0}, "eth7");
  EXPECT_EQ(base::message(missing.status()), "this machine has no interface 'eth7' that is up");
  EXPECT_EQ(base::next_step(missing.status()), "there are: lo 127.0.0.1, eth0 192.168.0.5");
}

TEST(ListInterfaces, FindsLoopback) {
  auto found = list_interfaces();
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(std::any_of(found->begin(), found->end(),
                          [](const Interface& one) { return one.loopback && one.address == "127.0.0.1"; }));
}

}  // namespace
}  // namespace rayo::rpc
