// What a user loses if these fail: `rayo status` leaves out a device, a name, a reason, or does not say that
// the head is gone.
#include "runtime/cli/status_text.h"

#include <gtest/gtest.h>

#include "runtime/base/resources.h"

namespace rayo::cli {
namespace {

constexpr int64_t kNow = 1'800'000'000;  // seconds since the epoch
base::WallTime now() { return base::WallTime(std::chrono::seconds(kNow)); }

proto::StatusReply cluster() {
  proto::StatusReply status;
  status.set_name("alpha");
  status.set_address("10.0.0.5:6379");
  status.set_version("0.1.0");
  status.set_reachable(true);
  status.set_started_at_unix_us((kNow - 200) * 1'000'000);
  proto::NodeInfo& node = *status.add_nodes();
  node.mutable_node()->set_high(0x4f2a91c03b770000);
  node.set_hostname("box");
  node.set_address("10.0.0.5:6380");
  node.set_state("alive");
  node.set_head(true);
  auto& total = *node.mutable_total()->mutable_units();
  auto& free = *node.mutable_free()->mutable_units();
  total["cpu"] = 80'000, free["cpu"] = 75'000;
  total["gpu"] = 10'000, free["gpu"] = 5'000;
  total["memory"] = (int64_t{8} << 30) * 10'000, free["memory"] = (int64_t{2} << 30) * 10'000;
  total["tpu"] = 20'000, free["tpu"] = 10'000;
  (*node.mutable_labels())["zone"] = "a";
  proto::Device& device = *node.add_devices();
  device.set_model("NVIDIA H200");
  device.set_state("hot");
  device.set_reason("93 C");
  device.set_free_units(5'000);
  device.set_memory_total_bytes(int64_t{141} << 30);
  device.set_memory_used_bytes(int64_t{3} << 30);
  device.set_temperature_c(93);
  device.set_power_w(412.4);
  return status;
}

TEST(StatusText, ShowsEachNodeWithItsDevices) {
  std::string text = status_text(cluster(), now());
  for (const char* part :
       {"Cluster alpha", "10.0.0.5:6379", "3 m 20 s", "box (head)", "4f2a91c03b77", "7.5/8", "0.5/1", "2.0 GiB/8.0 GiB",
        "tpu 1/2", "zone=a", "box:0", "NVIDIA H200", "hot (93 C)", "3.0 GiB/141.0 GiB", "412 W", "Actors: none"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(StatusText, ShowsActorsByNameAndWhyWhatWaits) {
  proto::StatusReply status = cluster();
  status.set_actors_alive(3);
  status.set_actors_pending(2);
  proto::ActorInfo& actor = *status.add_named_actors();
  actor.set_name("hits");
  actor.set_class_name("Counter");
  actor.set_state(proto::ALIVE);
  actor.mutable_address()->mutable_node()->set_high(0x4f2a91c03b770000);
  proto::PendingGroup& group = *status.add_pending();
  group.set_kind("actor");
  group.set_count(2);
  group.set_oldest_waiting_seconds(12.34);
  (*group.mutable_resources()->mutable_units())["gpu"] = 40'000;
  group.add_examples("00112233445566778899aabbccddeeff");
  proto::Reason& reason = *group.add_reasons();
  reason.set_text("needs 4 gpu, the node has 1");
  reason.set_nodes(1);
  std::string text = status_text(status, now());
  for (const char* part : {"3 alive, 2 pending", "hits", "Counter", "on box", "2 actors {gpu: 4} for 12.3 s",
                           "rayo why 001122334455", "needs 4 gpu, the node has 1  (1 node)"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(StatusText, SaysWhenTheHeadIsGoneAndHowOldTheNewsIs) {
  proto::StatusReply status = cluster();
  status.set_reachable(false);
  status.set_as_of_unix_us((kNow - 12) * 1'000'000);
  proto::NodeInfo& other = *status.add_nodes();
  other.set_hostname("attic");
  other.set_state("alive");
  other.set_last_seen_seconds_ago(12.5);
  std::string text = status_text(status, now());
  EXPECT_NE(text.find("was up 3 m 8 s"), std::string::npos) << text;  // as far as anybody knows
  EXPECT_NE(text.find("alive (seen 12.5 s ago)"), std::string::npos) << text;
  EXPECT_EQ(text.find("alive (seen 0"), std::string::npos) << text;  // the node that tells this
  EXPECT_NE(text.find("head does not answer"), std::string::npos) << text;
  EXPECT_NE(text.find("12.0 s ago"), std::string::npos) << text;
}

TEST(StatusText, ANodeThatIsSuspectSaysSinceWhen) {
  proto::StatusReply status = cluster();
  status.mutable_nodes(0)->set_state("suspect");
  status.mutable_nodes(0)->set_last_seen_seconds_ago(2.5);
  EXPECT_NE(status_text(status, now()).find("suspect (seen 2.5 s ago)"), std::string::npos);
}

}  // namespace
}  // namespace rayo::cli
