// What a user loses if these fail: `rayo list --json` changes its keys, or a filter shows what it should
// hide.
#include "runtime/cli/list_items.h"

#include <gtest/gtest.h>

#include "runtime/base/status.h"

namespace rayo::cli {
namespace {

proto::ListReply actors() {
  proto::ListReply reply;
  for (int i = 0; i < 3; ++i) {
    proto::ActorInfo& actor = *reply.add_actors();
    actor.mutable_actor()->set_high(0xaa00 + static_cast<uint64_t>(i));
    actor.set_class_name("Counter");
    actor.set_state(i == 2 ? proto::DEAD : proto::ALIVE);
    actor.set_pid(100 + i);
    actor.set_incarnation(3);
    actor.set_restarts(2);
    actor.set_max_restarts(-1);
    actor.set_detached(i == 1);
    (*actor.mutable_resources()->mutable_units())["cpu"] = 20'000;
  }
  proto::DeathRecord& death = *reply.mutable_actors(2)->mutable_death();
  death.set_kind(proto::SIGNAL);
  death.set_signal(11);
  death.set_text("signal 11 (Segmentation fault)");
  return reply;
}

TEST(ListItems, CarryTheDeathRecord) {
  auto items = list_items("actors", actors());
  ASSERT_EQ(items.size(), 3u);
  EXPECT_TRUE(items[0].at("death").is_null());
  EXPECT_EQ(items[2].at("death").at("kind").as_string(), "signal");
  EXPECT_EQ(items[2].at("state").as_string(), "dead");
  std::string text = list_text("actors", items);
  EXPECT_NE(text.find("signal 11 (Segmentation fault)"), std::string::npos) << text;
}

TEST(ListItems, TellHowOftenAnActorCameBack) {
  auto items = list_items("actors", actors());
  EXPECT_EQ(items[0].at("incarnation").as_uint64(), 3u);
  EXPECT_EQ(items[0].at("restarts").as_int64(), 2);
  EXPECT_EQ(items[0].at("max_restarts").as_int64(), -1);
  EXPECT_EQ(filter_items(items, {"detached=true"})->size(), 1u);
}

TEST(ListItems, FiltersMustAllFit) {
  auto items = list_items("actors", actors());
  EXPECT_EQ(filter_items(items, {"state=alive"})->size(), 2u);
  EXPECT_EQ(filter_items(items, {"state=alive", "pid=101"})->size(), 1u);
  EXPECT_EQ(filter_items(items, {"resources.cpu=2"})->size(), 3u);
  EXPECT_EQ(filter_items(items, {"state=dead", "pid=101"})->size(), 0u);
}

TEST(ListItems, AFilterThatCanFitNothingIsAnError) {
  auto items = list_items("actors", actors());
  for (const char* filter : {"state", "=alive", "stat=alive", "resources.cpus=2"}) {
    EXPECT_EQ(filter_items(items, {filter}).status().code(), absl::StatusCode::kInvalidArgument) << filter;
  }
  EXPECT_TRUE(filter_items({}, {"stat=alive"}).ok()) << "of nothing nobody knows the keys";
}

TEST(ListItems, NothingIsSaidInWords) { EXPECT_EQ(list_text("jobs", {}), "No jobs.\n"); }

}  // namespace
}  // namespace rayo::cli
