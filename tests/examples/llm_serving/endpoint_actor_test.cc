// What a user loses if these fail: an order to an endpoint that dies meanwhile is lost, or carried out twice.
#include "examples/llm_serving/endpoint_actor.h"

#include <gtest/gtest.h>

namespace serving {
namespace {

std::vector<uint64_t> numbers(const std::vector<EndpointOrder>& orders) {
  std::vector<uint64_t> list;
  for (const EndpointOrder& order : orders) list.push_back(order.number);
  return list;
}

TEST(EndpointActor, HandsOrdersOutUntilTheyAreDone) {
  EndpointActor mailbox;
  EXPECT_EQ(mailbox.ask({.kind = EndpointOrder::Kind::kScale, .name = "m", .replicas = 2}), 1u);
  EXPECT_EQ(mailbox.ask({.kind = EndpointOrder::Kind::kStop}), 2u);
  EXPECT_EQ(numbers(mailbox.exchange({.report = "a"})), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(numbers(mailbox.exchange({.report = "b"})), (std::vector<uint64_t>{1, 2})) << "whoever took them has died";
  EXPECT_EQ(numbers(mailbox.exchange({.report = "c", .done = 1})), (std::vector<uint64_t>{2}));
  EXPECT_EQ(mailbox.orders[0].kind, EndpointOrder::Kind::kStop);
  EXPECT_TRUE(mailbox.exchange({.report = "d", .done = 2}).empty());
  EXPECT_EQ(mailbox.read().report, "d");
}

TEST(EndpointActor, AFreshOneGoesOnWithTheNumbersOfTheEndpoint) {
  EndpointActor mailbox;  // the one before has died
  EXPECT_TRUE(mailbox.exchange({.models = {{.name = "m", .running = {1, 3}}}, .done = 7}).empty());
  EXPECT_EQ(mailbox.ask({}), 8u) << "a number that was done already would be passed over";
  EXPECT_EQ(mailbox.read().models.at(0).running, (std::vector<int32_t>{1, 3}));
}

}  // namespace
}  // namespace serving
