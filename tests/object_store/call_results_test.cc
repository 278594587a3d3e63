// If these fail: get() of a large result that was made on another node hangs, or the result is gone when it is read. Invariant
// numbers are those at the head of object_store/directory.h.
#include <gtest/gtest.h>

#include "object_store/directory.h"
#include "tests/testkit/manual_clock.h"

namespace rayo::object_store {
namespace {

constexpr ProcessKey kProcess = 7;
constexpr ProcessKey kOther = 8;
constexpr NodeKey kHere = 1;
constexpr NodeKey kThere = 2;
constexpr NodeKey kThird = 3;
const ObjectId kMine{kHere, kProcess, 1};

class CallResultsTest : public testing::Test {
 protected:
  CallResultsTest() {
    directory_.process_joined(kProcess);
    directory_.process_joined(kOther);
  }

  // The one action of that kind, the others being none of the test's business.
  Action only(Action::Kind kind) {
    std::vector<Action> of_kind;
    for (Action& action : directory_.take_actions())
      if (action.kind == kind) of_kind.push_back(std::move(action));
    EXPECT_EQ(of_kind.size(), 1u);
    return of_kind.empty() ? Action{.kind = kind} : of_kind.front();
  }
  bool nothing_to_do() { return directory_.take_actions().empty(); }

  testkit::ManualClock clock_;
  Directory directory_{kHere, 1 << 20, clock_};
};

// The callee's node has sealed a result and dies before it could tell the home: get() would wait as long as the caller lives.
TEST_F(CallResultsTest, WhatItsCallerKnowsToBeSealedIsHadOrLostWithThatNode) {  // invariant 6
  proto::DeathRecord record;
  record.set_kind(proto::NODE_LOST);
  directory_.hold(kProcess, kMine);
  directory_.result_sealed(kProcess, kMine, kThere, 1000, nullptr);
  directory_.resolve(1, kMine, true, kProcess);
  EXPECT_EQ(only(Action::Kind::kPull).node, kThere) << "without waiting for that node's own word";
  directory_.node_died(kThere, record);
  EXPECT_EQ(only(Action::Kind::kAnswer).known.failure.death().kind(), proto::NODE_LOST);
  const ObjectId late{kHere, kProcess, 2};
  directory_.hold(kProcess, late);
  directory_.asked(2, late, {});
  directory_.result_sealed(kProcess, late, kThere, 1000, &record);  // its death came before the reply was read
  EXPECT_EQ(only(Action::Kind::kAnswer).known.failure.kind(), proto::OBJECT_LOST);
  directory_.resolve(3, late, true, kProcess);
  EXPECT_EQ(only(Action::Kind::kAnswer).known.failure.death().kind(), proto::NODE_LOST);
  // A task that ran again: the loss of the first copy says nothing of the second.
  directory_.result_sealed(kProcess, late, kThird, 1000, nullptr);
  directory_.resolve(4, late, true, kProcess);
  EXPECT_EQ(only(Action::Kind::kPull).node, kThird);
}

// A caller that stands still (in a debugger, with its machine) for longer than kLinger would find its result freed.
TEST_F(CallResultsTest, AResultIsKeptUntilItsCallerHasHeardOfIt) {  // invariant 3
  const ObjectId given_up{kHere, kProcess, 2};
  for (const ObjectId& object : {kMine, given_up}) {
    directory_.node_has_copy(kThere, object, 1000);
    clock_.advance(Directory::kLinger);
    directory_.sweep();
    EXPECT_EQ(only(Action::Kind::kAskMinter).object, object);
    clock_.advance(std::chrono::hours(1));
    directory_.sweep();
    EXPECT_TRUE(nothing_to_do()) << "it is asked once";
  }
  directory_.disowned(kProcess, given_up);
  clock_.advance(Directory::kLinger);
  directory_.sweep();
  EXPECT_EQ(only(Action::Kind::kDropCopy).object, given_up);
  directory_.hold(kProcess, kMine);
  directory_.result_sealed(kProcess, kMine, kThere, 1000, nullptr);
  directory_.resolve(1, kMine, true, kProcess);
  EXPECT_EQ(only(Action::Kind::kPull).node, kThere);
  directory_.pulled(kMine, std::nullopt);
  directory_.unpin(kProcess, kMine);
  directory_.drop(kProcess, kMine);
  (void)directory_.take_actions();
  clock_.advance(Directory::kLinger);
  directory_.sweep();
  EXPECT_EQ(directory_.size(), 0u);
}

TEST_F(CallResultsTest, AResultOfACallerThatEndedIsFreed) {  // invariant 4
  directory_.node_has_copy(kThere, kMine, 1000);
  clock_.advance(Directory::kLinger);
  directory_.sweep();
  EXPECT_EQ(only(Action::Kind::kAskMinter).object, kMine);
  directory_.process_died(kProcess, {});
  clock_.advance(Directory::kLinger);
  directory_.sweep();
  EXPECT_EQ(only(Action::Kind::kDropCopy).node, kThere);
}

TEST_F(CallResultsTest, WhatWasSealedHereAndIsGoneIsLost) {  // invariant 6
  directory_.result_sealed(kProcess, kMine, kHere, 1000, nullptr);
  directory_.resolve(1, kMine, true, kProcess);
  EXPECT_EQ(only(Action::Kind::kAnswer).known.failure.kind(), proto::OBJECT_LOST);
}

TEST_F(CallResultsTest, AnotherProcessSaysNothingOfAResult) {
  directory_.result_sealed(kOther, kMine, kThere, 1000, nullptr);
  directory_.resolve(1, kMine, true, kOther);
  EXPECT_TRUE(nothing_to_do());
}

}  // namespace
}  // namespace rayo::object_store
