// If these fail: a call is lost, answered twice or out of order when its actor dies and comes back.
#include "runtime/worker/actor_client.h"

#include <gtest/gtest.h>
#include <vector>

#include "tests/runtime/worker/fake_wire.h"

namespace rayo::worker {
namespace {

constexpr ActorId kActor{7, 8};

class ActorClientTest : public testing::Test {
 protected:
  // The slot of a call with one argument ref, one handle inside, and these bytes.
  ObjectSlot& call(const std::string& arguments) {
    ObjectSlot& result = table_.mint();
    internal::CallRequest request;
    request.arguments = bytes_of(arguments);
    internal::ObjectHandle refs[] = {argument_.handle()};
    ActorId actors[] = {kActor};
    request.refs = refs;
    request.inner_actors = actors;
    if (!client_.call_now(result, request))
      client_.submit(std::make_unique<OutgoingCall>(table_, wire_, result, request));
    return result;
  }
  void tell(proto::ActorState state, uint32_t incarnation) {
    info_.set_state(state);
    info_.set_incarnation(incarnation);
    client_.on_info(info_);
  }
  void reply(ObjectSlot& slot) {
    table_.fulfil(slot, bytes_of("reply"));
    client_.answered(slot.id.counter, 0);
  }
  std::vector<std::string> sent() const {
    std::vector<std::string> out;
    for (const Sent& frame : wire_.sent) out.push_back(frame.arguments);
    return out;
  }
  static ErrorKind error_of(ObjectSlot& slot) { return slot.error ? slot.error->kind : ErrorKind::kInternal; }

  FakeObserver observer_;
  ObjectTable table_{1, 2, observer_};
  FakeWire wire_;
  proto::ActorInfo info_;
  ObjectSlot& argument_ = [this]() -> ObjectSlot& {
    ObjectSlot& slot = table_.mint();
    table_.fulfil(slot, bytes_of("argument"));
    return slot;
  }();
  ActorClient client_{kActor, "Counter", table_, wire_};
};

using Strings = std::vector<std::string>;

TEST_F(ActorClientTest, CallsUnderWayEndWithTheLifeAndLaterOnesWaitForTheNext) {
  tell(proto::ALIVE, 1);
  ObjectSlot& under_way = call("a");
  tell(proto::RESTARTING, 2);
  EXPECT_EQ(error_of(under_way), ErrorKind::kActorDied);
  ObjectSlot& later = call("b");
  EXPECT_FALSE(later.ready());
  tell(proto::ALIVE, 2);
  EXPECT_EQ(sent(), (Strings{"a", "b"}));
  EXPECT_EQ(wire_.sent[1].header.incarnation, 2u);
  EXPECT_EQ(wire_.sent[1].header.sequence, 1u);
}

// kill() waits for the end of a life: a call that is made after it must not be answered.
TEST_F(ActorClientTest, TheFirstLifeThatIsHeardOfEndsNone) {
  tell(proto::ALIVE, 2);
  EXPECT_EQ(client_.lives_ended(), 0u);
  tell(proto::ALIVE, 3);
  EXPECT_EQ(client_.lives_ended(), 1u);
}

TEST_F(ActorClientTest, WithRetriesTheyAreSentToTheNextLifeInTheirOrder) {
  info_.set_max_call_retries(1);
  tell(proto::ALIVE, 1);
  ObjectSlot& answered = call("a");
  ObjectSlot& first = call("b");
  ObjectSlot& given_up = call("c");
  ObjectSlot& second = call("d");
  reply(answered);
  table_.fail(given_up, {});
  client_.given_up(given_up.id.counter);
  tell(proto::RESTARTING, 2);
  ObjectSlot& later = call("e");
  EXPECT_FALSE(first.ready() || second.ready());
  tell(proto::ALIVE, 2);
  EXPECT_EQ(sent(), (Strings{"a", "b", "c", "d", "b", "d", "e"}));
  for (size_t i = 4; i < 7; ++i) {
    EXPECT_EQ(wire_.sent[i].header.incarnation, 2u);
    EXPECT_EQ(wire_.sent[i].header.sequence, i - 3);
  }
  reply(first);
  tell(proto::RESTARTING, 3);  // once more than they may
  EXPECT_EQ(error_of(second), ErrorKind::kActorDied);
  EXPECT_FALSE(later.ready());
  tell(proto::ALIVE, 3);
  EXPECT_EQ(sent().back(), "e");
  reply(later);
  EXPECT_TRUE(client_.idle());
}

TEST_F(ActorClientTest, RetriesEndWithTheActor) {
  info_.set_max_call_retries(-1);
  tell(proto::ALIVE, 1);
  ObjectSlot& under_way = call("a");
  tell(proto::RESTARTING, 2);
  tell(proto::DEAD, 2);
  EXPECT_EQ(error_of(under_way), ErrorKind::kActorDied);
  ObjectSlot& late = call("b");
  EXPECT_EQ(error_of(late), ErrorKind::kActorDied);
}

TEST_F(ActorClientTest, ItIsFullWithAsManyCallsAsItsLimit) {
  client_.limit_pending(2);
  ObjectSlot& first = call("a");  // waits for the address
  EXPECT_FALSE(client_.full());
  info_.set_max_pending_calls(2);
  tell(proto::ALIVE, 1);
  ObjectSlot& second = call("b");
  EXPECT_TRUE(client_.full());
  reply(first);
  EXPECT_FALSE(client_.full());
  reply(second);
}

TEST_F(ActorClientTest, WhatARetriedCallNamesIsHeldUntilItsReply) {
  info_.set_max_call_retries(-1);
  tell(proto::ALIVE, 1);
  ObjectSlot& under_way = call("a");
  EXPECT_EQ(argument_.handles.load(), 2u);
  EXPECT_EQ(wire_.actors_held, 1);
  tell(proto::RESTARTING, 2);
  tell(proto::ALIVE, 2);
  EXPECT_EQ(sent(), (Strings{"a", "a"}));
  EXPECT_EQ(argument_.handles.load(), 2u);
  reply(under_way);
  table_.drain();
  EXPECT_EQ(argument_.handles.load(), 1u);
  EXPECT_EQ(wire_.actors_held, 0);
}

}  // namespace
}  // namespace rayo::worker
