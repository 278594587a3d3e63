// What a user loses if these fail: `--address [fe80::1]:6379` or a typo in it is taken for something else.
#include "runtime/base/address.h"

#include <gtest/gtest.h>

namespace rayo::base {
namespace {

TEST(Address, ReadsWhatPeopleWrite) {
  EXPECT_EQ(*parse_host_port("10.0.0.5:6379"), (HostPort{"10.0.0.5", 6379}));
  EXPECT_EQ(*parse_host_port("[fe80::1]:80"), (HostPort{"fe80::1", 80}));
  EXPECT_EQ(parse_host_port("[fe80::1]:80")->text(), "[fe80::1]:80");
  EXPECT_EQ(parse_host_ports("a:1, b:2")->size(), 2u);
}

TEST(Address, APortMayBeLeftOutWhereItIsSaidSo) {
  EXPECT_EQ(*parse_host("gate.lan", 7), (HostPort{"gate.lan", 7}));
  EXPECT_EQ(*parse_host("gate.lan:8", 7), (HostPort{"gate.lan", 8}));
  EXPECT_EQ(*parse_host("fd00::1", 7), (HostPort{"fd00::1", 7}));
  EXPECT_EQ(*parse_host("[fd00::1]", 7), (HostPort{"fd00::1", 7}));
  EXPECT_EQ(*parse_host("[fd00::1]:8", 7), (HostPort{"fd00::1", 8}));
  for (const char* text : {"", "a b", "gate:", "gate:0", "[fd00::1", "fd00::1]", "[]", "a/b"})
    EXPECT_FALSE(parse_host(text, 7).ok()) << text;
}

TEST(Address, RefusesTheRestAndShowsHow) {
  for (const char* text : {"", "host", ":80", "host:", "host:0", "host:65536", "host:8x", "fe80::1:80", "http://a:1",
                           "a b:1", "a:1,", "[\t1]:6", "a\x1b[31m:1"}) {
    auto parsed = parse_host_ports(text);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(next_step(parsed.status()).find("HOST:PORT"), std::string::npos);
  }
}

TEST(Address, KnowsItsOwnMachine) {
  EXPECT_TRUE(is_local_address("127.0.0.1"));
  EXPECT_TRUE(is_local_address("::1"));
  EXPECT_FALSE(is_local_address("192.0.2.1"));
  auto local = resolve_host("localhost");
  ASSERT_TRUE(local.ok());
  EXPECT_TRUE(is_local_address(local->front()));
  auto unknown = resolve_host("no-such-host.invalid");
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace rayo::base
