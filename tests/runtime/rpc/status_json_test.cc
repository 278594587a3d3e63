// What a user loses if these fail: scripts that read `rayo status --json` or /api/status break.
#include "runtime/rpc/status_json.h"

#include <boost/json.hpp>
#include <gtest/gtest.h>

namespace rayo::rpc {
namespace {

namespace json = boost::json;

std::vector<std::string> keys(const json::value& value) {
  std::vector<std::string> out;
  for (const auto& pair : value.as_object()) out.emplace_back(pair.key());
  return out;
}

proto::StatusReply sample() {
  proto::StatusReply status;
  status.mutable_cluster()->set_high(1);
  status.set_started_at_unix_us(1'500'000);
  auto* node = status.add_nodes();
  (*node->mutable_total()->mutable_units())["cpu"] = 80'000;
  (*node->mutable_free()->mutable_units())["cpu"] = 75'000;
  (*node->mutable_total()->mutable_units())["memory"] = 10'000ll << 30;
  (*node->mutable_total()->mutable_units())["tpu"] = 20'000;
  node->add_devices()->set_free_units(4'000);
  auto* group = status.add_pending();
  (*group->mutable_resources()->mutable_units())["gpu"] = 6'000;
  auto* reason = group->add_reasons();
  reason->set_code("insufficient_gpu");
  reason->set_nodes(2);
  return status;
}

TEST(StatusJson, HasExactlyTheContractsNames) {
  auto status = sample();
  status.add_named_actors()->set_state(proto::ALIVE);
  status.add_events()->set_severity("info");
  auto document = json::parse(status_json(status));
  using Names = std::vector<std::string>;
  EXPECT_EQ(keys(document), (Names{"schema", "cluster", "nodes", "actors", "pending", "events"}));
  EXPECT_EQ(keys(document.at("cluster")),
            (Names{"id", "name", "epoch", "version", "started_at", "address", "http", "reachable", "as_of"}));
  const auto& node = document.at("nodes").at(0);
  EXPECT_EQ(keys(node),
            (Names{"id", "hostname", "address", "state", "head", "labels", "started_at", "last_seen_seconds_ago",
                   "resources", "devices", "object_store", "workers", "drivers", "death"}));
  EXPECT_EQ(keys(node.at("devices").at(0)), (Names{"index", "uuid", "model", "state", "reason", "memory_total_bytes",
                                                   "memory_used_bytes", "temperature_c", "power_w", "free"}));
  EXPECT_EQ(keys(node.at("object_store")), (Names{"capacity_bytes", "used_bytes", "spilled_bytes"}));
  EXPECT_EQ(keys(document.at("actors")), (Names{"pending", "starting", "alive", "restarting", "dead", "named"}));
  EXPECT_EQ(keys(document.at("actors").at("named").at(0)), (Names{"name", "namespace", "id", "state", "node"}));
  EXPECT_EQ(keys(document.at("pending").at(0)),
            (Names{"kind", "resources", "count", "oldest_waiting_seconds", "reasons", "examples"}));
  EXPECT_EQ(keys(document.at("events").at(0)), (Names{"at", "severity", "text"}));
}

TEST(StatusJson, AmountsAreInTheirUnits) {
  auto document = json::parse(status_json(sample()));
  const auto& resources = document.at("nodes").at(0).at("resources");
  EXPECT_EQ(resources.at("cpu").at("total"), json::value(8.0));
  EXPECT_EQ(resources.at("cpu").at("free"), json::value(7.5));
  EXPECT_EQ(resources.at("memory_bytes").at("total").as_int64(), 1ll << 30);
  EXPECT_EQ(resources.at("gpu").at("total"), json::value(0.0));
  EXPECT_EQ(resources.at("tpu").at("free"), json::value(0.0));
  EXPECT_EQ(document.at("cluster").at("started_at"), json::value(1.5));
  EXPECT_EQ(document.at("nodes").at(0).at("devices").at(0).at("free"), json::value(0.4));
  EXPECT_EQ(document.at("pending").at(0).at("resources").at("gpu"), json::value(0.6));
  EXPECT_TRUE(document.at("nodes").at(0).at("death").is_null());
}

TEST(StatusJson, IsJsonWhateverUsersHaveWritten) {
  proto::StatusReply status;
  status.add_named_actors()->set_name("caf\xe9");
  status.add_events()->set_text("\xff\" died");
  auto document = json::parse(status_json(status));
  EXPECT_EQ(document.at("actors").at("named").at(0).at("name"), "caf\xef\xbf\xbd");
  EXPECT_EQ(document.at("events").at(0).at("text"), "\xef\xbf\xbd\" died");
}

TEST(StatusJson, ADeathRecordIsWhole) {
  proto::DeathRecord death;
  death.set_kind(proto::OUT_OF_MEMORY);
  death.add_last_log_lines("boom");
  auto record = death_json(death);
  EXPECT_EQ(keys(record), (std::vector<std::string>{"at", "node", "pid", "kind", "exit_code", "signal", "core_dumped",
                                                    "rss_peak_bytes", "incarnation", "text", "last_log_lines"}));
  EXPECT_EQ(record.at("kind"), "out_of_memory");
}

}  // namespace
}  // namespace rayo::rpc
