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

TEST(ListItems, ACallIsNamedByItsResultAndAConstructorByItsActor) {
  proto::ListReply reply;
  proto::TaskInfo& call = *reply.add_tasks();
  call.mutable_call()->set_home(1);
  call.mutable_call()->set_process(2);
  call.mutable_call()->set_counter(0xabc);
  call.set_name("half");
  call.set_state("waiting");
  call.set_submitted_at_unix_us(1'000'000);
  proto::TaskInfo& constructor = *reply.add_tasks();
  constructor.mutable_actor()->set_high(0xaa);
  constructor.set_state("running");
  constructor.set_pid(4711);
  auto items = list_items("tasks", reply);
  const std::string id =
      "00000000000000010000000000000002"
      "0000000000000abc";
  EXPECT_EQ(items[0].at("id").as_string(), id);
  EXPECT_EQ(items[1].at("id").as_string(), "00000000000000aa0000000000000000");
  EXPECT_TRUE(items[0].at("started_at").is_null());
  EXPECT_EQ(items[0].at("submitted_at").as_double(), 1.0);
  const std::string text = list_text("tasks", items);
  EXPECT_NE(text.find(id), std::string::npos) << "its first digits would be its node's alone: " << text;
  EXPECT_NE(text.find("4711"), std::string::npos) << text;
  EXPECT_EQ(text.find(" 0 "), std::string::npos) << "nobody has run it: " << text;
}

TEST(ListItems, AnObjectNamesTheNodesThatHaveIt) {
  proto::ListReply reply;
  proto::ObjectInfo& object = *reply.add_objects();
  object.mutable_object()->set_counter(5);
  object.set_size_bytes(1 << 20);
  object.set_state("arena");
  for (uint64_t node : {0x11ull << 56, 0x22ull << 56}) object.add_copies()->set_high(node);
  auto items = list_items("objects", reply);
  EXPECT_EQ(filter_items(items, {"size_bytes=1048576"})->size(), 1u);
  const std::string text = list_text("objects", items);
  EXPECT_NE(text.find("110000000000 220000000000"), std::string::npos) << text;
}

TEST(ListItems, NothingIsSaidInWords) { EXPECT_EQ(list_text("jobs", {}), "No jobs.\n"); }

}  // namespace
}  // namespace rayo::cli
