// What a user loses if these fail: get() hangs, an object in use is freed, or shared memory leaks until the node is
// full. Invariant numbers are those at the head of object_store/directory.h.
#include "object_store/directory.h"

#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <memory>
#include <random>

#include "tests/testkit/manual_clock.h"

namespace rayo::object_store {
namespace {

constexpr ProcessKey kProcess = 7;
constexpr ProcessKey kOther = 8;
constexpr NodeKey kHere = 1;
constexpr NodeKey kThere = 2;
constexpr NodeKey kThird = 3;
const ObjectId kMine{kHere, kProcess, 1};
const ObjectId kForeign{kThere, 70, 1};

Known value(std::string bytes) {
  Known known;
  known.value = std::move(bytes);
  return known;
}

class DirectoryTest : public testing::Test {
 protected:
  DirectoryTest() {
    directory_.process_joined(kProcess);
    directory_.process_joined(kOther);
  }

  // The one action of that kind, the others being none of the test's business.
  Action only(Action::Kind kind) {
    std::vector<Action> of_kind;
    for (Action& action : directory_.take_actions()) {
      if (action.kind == kind) of_kind.push_back(std::move(action));
    }
    EXPECT_EQ(of_kind.size(), 1u);
    return of_kind.empty() ? Action{.kind = kind} : of_kind.front();
  }
  bool nothing_to_do() { return directory_.take_actions().empty(); }

  testkit::ManualClock clock_;
  Directory directory_{kHere, 1 << 20, clock_};
};

TEST_F(DirectoryTest, AWaiterGetsWhatIsPublishedLater) {
  directory_.resolve(1, kMine, true, kOther);
  EXPECT_TRUE(nothing_to_do());
  directory_.publish(kProcess, kMine, value("x"));
  Action answer = only(Action::Kind::kAnswer);
  EXPECT_EQ(answer.ticket, 1u);
  EXPECT_EQ(answer.known.value, "x");
}

TEST_F(DirectoryTest, EachObjectIsListedWithWhoHoldsIt) {
  directory_.publish(kProcess, kMine, value("four"));
  directory_.hold(kOther, kMine);
  const ObjectId large{kHere, kProcess, 2};
  ASSERT_TRUE(directory_.create(kProcess, large, 4096));
  directory_.hold(kOther, kForeign);
  std::map<ObjectId, Directory::Listed> listed;
  for (auto& one : directory_.list()) listed[one.object] = one;
  ASSERT_EQ(listed.size(), 3u);
  EXPECT_EQ(listed[kMine].kind, Known::Kind::kValue);
  EXPECT_EQ(listed[kMine].size_bytes, 4);
  EXPECT_EQ(listed[kMine].holders, 2u) << "its maker, and who was told of it";
  EXPECT_FALSE(listed[kMine].here);
  EXPECT_FALSE(listed[large].kind) << "it is being written";
  EXPECT_FALSE(listed[large].here);
  EXPECT_FALSE(listed[kForeign].kind);
  directory_.seal(kProcess, large);
  directory_.pin(kOther, large);
  for (auto& one : directory_.list()) listed[one.object] = one;
  EXPECT_EQ(listed[large].kind, Known::Kind::kArena);
  EXPECT_EQ(listed[large].size_bytes, 4096);
  EXPECT_EQ(listed[large].pins, 1u);
  EXPECT_TRUE(listed[large].here);
}

// A stream whose Stream was dropped unread: its maker must hear of it, or it waits for credit for ever.
TEST_F(DirectoryTest, WhoAskedIsToldWhenNobodyHoldsItsObject) {
  directory_.publish(kProcess, kMine, value("x"), true);
  directory_.hold(kOther, kMine);
  directory_.node_hold(kThere, kMine);
  directory_.drop(kProcess, kMine);
  directory_.drop(kOther, kMine);
  clock_.advance(2 * Directory::kLinger);
  directory_.sweep();
  EXPECT_TRUE(nothing_to_do()) << "another node holds it";
  directory_.node_drop(kThere, kMine);
  directory_.sweep();
  EXPECT_TRUE(nothing_to_do()) << "a hold may be on its way";
  clock_.advance(2 * Directory::kLinger);
  directory_.sweep();
  EXPECT_EQ(only(Action::Kind::kUnheld).object, kMine);
}

TEST_F(DirectoryTest, ADeathOfTheMinterAnswersItsWaiters) {  // invariant 1
  directory_.resolve(1, kMine, true, kOther);
  proto::DeathRecord record;
  record.set_exit_code(3);
  directory_.process_died(kProcess, record);
  Action answer = only(Action::Kind::kAnswer);
  EXPECT_EQ(answer.known.failure.kind(), proto::OBJECT_LOST);
  EXPECT_EQ(answer.known.failure.death().exit_code(), 3);
}

// A ref that came late, of an object that was freed: get() would wait as long as its minter lives.
TEST_F(DirectoryTest, WhatItsMinterDoesNotOwnIsLost) {  // invariant 5
  directory_.resolve(1, kMine, true, kOther);
  directory_.sweep();
  EXPECT_TRUE(nothing_to_do()) << "its minter's word may be on its way";
  clock_.advance(Directory::kLastLinger);
  directory_.sweep();
  EXPECT_EQ(only(Action::Kind::kAskMinter).object, kMine);
  clock_.advance(Directory::kLastLinger);
  directory_.sweep();
  EXPECT_TRUE(nothing_to_do()) << "it is asked once";
  directory_.disowned(kOther, kMine);
  EXPECT_TRUE(nothing_to_do()) << "not its minter";
  directory_.disowned(kProcess, kMine);
  Action answer = only(Action::Kind::kAnswer);
  EXPECT_EQ(answer.known.failure.kind(), proto::OBJECT_LOST);
  EXPECT_FALSE(answer.known.failure.next_step().empty());
  directory_.disowned(kProcess, kMine);
  directory_.publish(kProcess, kMine, value("x"));
  directory_.resolve(2, kMine, true, kOther);
  EXPECT_EQ(only(Action::Kind::kAnswer).known.value, "x") << "a failure never hides a value";
}

TEST_F(DirectoryTest, WhatItsMinterHasPromisedIsWaitedFor) {
  directory_.resolve(1, kMine, true, kOther);
  directory_.publish(kProcess, kMine, std::nullopt);
  directory_.resolve(2, kMine, true, kOther);
  clock_.advance(std::chrono::hours(1));
  directory_.sweep();
  EXPECT_TRUE(nothing_to_do());
}

TEST_F(DirectoryTest, AKnownValueSurvivesItsMinter) {
  directory_.publish(kProcess, kMine, value("x"));
  directory_.hold(kOther, kMine);
  directory_.process_died(kProcess, {});
  clock_.advance(std::chrono::minutes(1));
  directory_.sweep();
  directory_.resolve(1, kMine, true, kOther);
  EXPECT_EQ(only(Action::Kind::kAnswer).known.value, "x");
}

TEST_F(DirectoryTest, AnObjectLingersForAHoldThatIsOnItsWay) {  // invariant 3, 4
  directory_.publish(kProcess, kMine, value("x"));
  directory_.drop(kProcess, kMine);
  clock_.advance(Directory::kLinger / 2);
  directory_.sweep();
  directory_.hold(kOther, kMine);
  clock_.advance(Directory::kLinger * 2);
  directory_.sweep();
  EXPECT_EQ(directory_.size(), 1u);
  directory_.drop(kOther, kMine);
  directory_.drop(kOther, kMine);
  clock_.advance(Directory::kLinger);
  directory_.sweep();
  EXPECT_EQ(directory_.size(), 0u);
}

// A driver's end leaves no object within a second; what others still hold stays.
TEST_F(DirectoryTest, WithItsDriverGoneAnObjectLingersBriefly) {
  proto::DeathRecord gone;
  gone.set_kind(proto::DRIVER_GONE);
  const ObjectId held{kMine.home, kMine.process, kMine.counter + 1};
  directory_.publish(kProcess, kMine, value("x"));
  directory_.publish(kProcess, held, value("y"));
  directory_.hold(kOther, held);
  directory_.process_died(kProcess, gone);
  clock_.advance(Directory::kLastLinger);
  directory_.sweep();
  EXPECT_EQ(directory_.size(), 1u);
  directory_.drop(kOther, held);
  clock_.advance(Directory::kLastLinger);
  directory_.sweep();
  EXPECT_EQ(directory_.size(), 0u);
}

TEST_F(DirectoryTest, ALargeForeignObjectIsPulledOnceAndAnswersAll) {
  directory_.resolve(1, kForeign, true, kProcess);
  directory_.resolve(2, kForeign, true, kOther);
  EXPECT_EQ(only(Action::Kind::kAskHome).object, kForeign);
  Known far;
  far.kind = Known::Kind::kArena;
  far.size_bytes = 1000;
  far.holder = kThere;
  directory_.home_answered(kForeign, far);
  Action pull = only(Action::Kind::kPull);
  EXPECT_EQ(pull.node, kThere);
  ASSERT_TRUE(pull.offset);
  directory_.pulled(kForeign, std::nullopt);
  int answers = 0;
  for (const Action& action : directory_.take_actions()) {
    if (action.kind != Action::Kind::kAnswer) continue;
    ++answers;
    EXPECT_EQ(action.offset, pull.offset);
  }
  EXPECT_EQ(answers, 2);
}

TEST_F(DirectoryTest, APinnedExtentStaysUntilItsReaderLetsGo) {  // invariant 3
  ASSERT_TRUE(directory_.create(kProcess, kMine, 5000));
  directory_.seal(kProcess, kMine);
  directory_.resolve(1, kMine, true, kOther);
  EXPECT_TRUE(only(Action::Kind::kAnswer).offset);
  directory_.drop(kProcess, kMine);
  clock_.advance(std::chrono::minutes(1));
  directory_.sweep();
  EXPECT_GT(directory_.used_bytes(), 0);
  directory_.unpin(kOther, kMine);
  clock_.advance(Directory::kLinger);
  directory_.sweep();
  EXPECT_EQ(directory_.used_bytes(), 0);
}

TEST_F(DirectoryTest, AResultMadeHereForAnotherNodeStaysUntilItsHomeFreesIt) {
  ASSERT_TRUE(directory_.create(kProcess, kForeign, 5000));
  directory_.seal(kProcess, kForeign);
  Action tell = only(Action::Kind::kTellHome);
  EXPECT_TRUE(tell.copy && tell.held);
  clock_.advance(std::chrono::hours(1));
  directory_.sweep();
  EXPECT_TRUE(directory_.sealed(kForeign));
  directory_.copy_dropped(kForeign);
  clock_.advance(Directory::kLinger);
  directory_.sweep();
  EXPECT_EQ(directory_.used_bytes(), 0);
}

TEST_F(DirectoryTest, TheLossOfTheOnlyCopyIsAnErrorThatNamesTheDeath) {  // invariant 1
  directory_.hold(kProcess, kMine);
  directory_.node_has_copy(kThere, kMine, 1000);
  directory_.resolve(1, kMine, true, kProcess);
  EXPECT_EQ(only(Action::Kind::kPull).node, kThere);
  proto::DeathRecord record;
  record.set_kind(proto::NODE_LOST);
  directory_.node_died(kThere, record);
  EXPECT_EQ(only(Action::Kind::kAnswer).known.failure.death().kind(), proto::NODE_LOST);
  directory_.pulled(kMine, proto::Failure());
  EXPECT_EQ(directory_.used_bytes(), 0);
}

TEST_F(DirectoryTest, AnObjectOutlivesANodeWhereAnotherHasACopy) {
  directory_.hold(kOther, kMine);
  directory_.node_has_copy(kThere, kMine, 1000);
  directory_.node_has_copy(kThird, kMine, 1000);
  directory_.node_died(kThere, {});
  directory_.resolve(1, kMine, true, kOther);
  EXPECT_EQ(only(Action::Kind::kPull).node, kThird);
}

Known far(NodeKey holder) {
  Known known;
  known.kind = Known::Kind::kArena;
  known.size_bytes = 1000;
  known.holder = holder;
  return known;
}
proto::Failure blip() {
  proto::Failure failure;
  failure.set_kind(proto::OBJECT_LOST);
  failure.set_text("no byte for 10 s");
  return failure;
}

// A network that stands still for a moment takes no object from anybody but who waited just then.
TEST_F(DirectoryTest, AFailedPullIsToldToWhoWaitedAndNobodyElse) {  // invariant 7
  directory_.hold(kOther, kMine);
  directory_.node_has_copy(kThere, kMine, 1000);
  directory_.resolve(1, kMine, true, kOther);
  EXPECT_EQ(only(Action::Kind::kPull).node, kThere);
  directory_.pulled(kMine, blip());
  EXPECT_EQ(only(Action::Kind::kAnswer).known.failure.text(), blip().text());
  directory_.asked(2, kMine, {});
  EXPECT_EQ(only(Action::Kind::kAnswer).known.holder, kThere) << "other nodes may have it";
  directory_.resolve(3, kMine, true, kOther);
  EXPECT_EQ(only(Action::Kind::kPull).node, kThere);
  directory_.pulled(kMine, std::nullopt);
  EXPECT_TRUE(only(Action::Kind::kAnswer).offset);
}

TEST_F(DirectoryTest, WhatCannotBeHadFromOneNodeIsHadFromAnother) {
  directory_.node_has_copy(kThere, kMine, 1000);
  directory_.node_has_copy(kThird, kMine, 1000);
  directory_.resolve(1, kMine, true, kOther);
  EXPECT_EQ(only(Action::Kind::kPull).node, kThere);
  directory_.pulled(kMine, blip());
  EXPECT_EQ(only(Action::Kind::kPull).node, kThird);
  directory_.pulled(kMine, std::nullopt);
  EXPECT_TRUE(only(Action::Kind::kAnswer).offset);
}

TEST_F(DirectoryTest, AHomeIsAskedForAnotherCopyThanTheOneThatWasTried) {
  directory_.resolve(1, kForeign, true, kOther);
  EXPECT_TRUE(only(Action::Kind::kAskHome).avoid.empty());
  directory_.home_answered(kForeign, far(kThere));
  EXPECT_EQ(only(Action::Kind::kPull).node, kThere);
  directory_.pulled(kForeign, blip());
  EXPECT_EQ(only(Action::Kind::kAskHome).avoid, std::vector{kThere});
  directory_.home_answered(kForeign, far(kThird));
  EXPECT_EQ(only(Action::Kind::kPull).node, kThird);
  directory_.pulled(kForeign, blip());
  EXPECT_EQ(only(Action::Kind::kAskHome).avoid, (std::vector{kThere, kThird}));
  directory_.home_answered(kForeign, far(kThird));
  EXPECT_EQ(only(Action::Kind::kAnswer).known.failure.text(), blip().text()) << "there is no other";
  directory_.resolve(2, kForeign, true, kOther);
  EXPECT_TRUE(only(Action::Kind::kAskHome).avoid.empty()) << "it begins anew";
}

TEST_F(DirectoryTest, AHomeNamesAnotherCopyWhereItCan) {
  directory_.node_has_copy(kThere, kMine, 1000);
  directory_.node_has_copy(kThird, kMine, 1000);
  directory_.asked(1, kMine, {kThere});
  EXPECT_EQ(only(Action::Kind::kAnswer).known.holder, kThird);
  directory_.asked(2, kMine, {kThere, kThird});
  EXPECT_EQ(only(Action::Kind::kAnswer).known.holder, kThere);
}

// Its home knows of other copies; only the home's word is final.
TEST_F(DirectoryTest, TheDeathOfAHolderElsewhereIsNoLossYet) {
  proto::DeathRecord record;
  record.set_kind(proto::NODE_LOST);
  const ObjectId theirs{kThere, 70, 2};
  directory_.resolve(1, theirs, true, kOther);
  directory_.home_answered(theirs, far(kThird));
  (void)directory_.take_actions();
  directory_.node_died(kThird, record);
  EXPECT_TRUE(nothing_to_do()) << "the pull ends by itself";
  directory_.pulled(theirs, blip());
  EXPECT_EQ(only(Action::Kind::kAskHome).avoid, std::vector{kThird});
  directory_.home_answered(theirs, far(kThere));
  EXPECT_EQ(only(Action::Kind::kPull).node, kThere);
  directory_.pulled(theirs, std::nullopt);
  EXPECT_TRUE(only(Action::Kind::kAnswer).offset);
}

TEST_F(DirectoryTest, TheDeathOfTheOnlyHolderIsTheReason) {
  proto::DeathRecord record;
  record.set_kind(proto::NODE_LOST);
  const ObjectId theirs{kThere, 70, 2};
  directory_.resolve(1, theirs, true, kOther);
  directory_.home_answered(theirs, far(kThird));
  directory_.node_died(kThird, record);
  directory_.pulled(theirs, blip());
  (void)directory_.take_actions();
  directory_.home_answered(theirs, far(kThird));  // it has not heard of the death yet
  EXPECT_EQ(only(Action::Kind::kAnswer).known.failure.death().kind(), proto::NODE_LOST);
}

TEST_F(DirectoryTest, AHomeThatCouldNotBeAskedIsAskedAgainByWhoComesLater) {  // invariant 7
  directory_.resolve(1, kForeign, true, kOther);
  EXPECT_EQ(only(Action::Kind::kAskHome).object, kForeign);
  directory_.home_failed(kForeign, blip());
  EXPECT_EQ(only(Action::Kind::kAnswer).known.failure.text(), blip().text());
  directory_.resolve(2, kForeign, true, kOther);
  EXPECT_EQ(only(Action::Kind::kAskHome).object, kForeign);
  directory_.home_answered(kForeign, value("x"));
  EXPECT_EQ(only(Action::Kind::kAnswer).known.value, "x");
}

// The minter's death and the value that another node made for it cross on their way.
TEST_F(DirectoryTest, AValueThatExistsIsNotHiddenByAnEarlierFailure) {
  directory_.hold(kOther, kMine);
  directory_.process_died(kProcess, {});
  directory_.node_has_copy(kThere, kMine, 1000);
  directory_.resolve(1, kMine, true, kOther);
  EXPECT_EQ(only(Action::Kind::kPull).node, kThere);
}

// Else a node keeps as much memory as all its objects ever had at once.
TEST_F(DirectoryTest, TheMemoryOfFreedObjectsGoesBack) {
  constexpr int64_t kSize = WarmExtents::kKept + (8 << 20);
  Directory directory(kHere, 2 * kSize, clock_);
  directory.process_joined(kProcess);
  ASSERT_TRUE(directory.create(kProcess, kMine, kSize));
  directory.seal(kProcess, kMine);
  clock_.advance(std::chrono::hours(1));
  directory.sweep();
  EXPECT_TRUE(directory.take_cold().empty()) << "it is in use";
  directory.drop(kProcess, kMine);
  clock_.advance(Directory::kLinger);
  directory.sweep();
  clock_.advance(WarmExtents::kRest);
  directory.sweep();
  auto cold = directory.take_cold();
  ASSERT_EQ(cold.size(), 1u);
  EXPECT_EQ(cold[0].size_bytes, 8 << 20);
}

TEST_F(DirectoryTest, AFullArenaIsATypedErrorWithFigures) {
  EXPECT_FALSE(directory_.create(kProcess, kMine, 2 << 20));
  directory_.node_has_copy(kThere, kMine, 2 << 20);
  directory_.resolve(1, kMine, true, kProcess);
  Action answer = only(Action::Kind::kAnswer);
  EXPECT_EQ(answer.known.failure.kind(), proto::OUT_OF_MEMORY_ERROR);
  EXPECT_NE(answer.known.failure.next_step().find("--object-store-memory"), std::string::npos);
}

// What a process or node tells is not to end or mix up what others have.
TEST_F(DirectoryTest, ASizeThatCannotBeIsNobodysExtent) {
  for (int64_t size : {int64_t{-5}, std::numeric_limits<int64_t>::max()}) {
    EXPECT_FALSE(directory_.create(kProcess, kMine, size)) << size;
    directory_.seal(kProcess, kMine);
    EXPECT_FALSE(directory_.sealed(kMine));
  }
  directory_.node_has_copy(kThere, kMine, -5);
  directory_.resolve(1, kMine, true, kOther);
  EXPECT_EQ(only(Action::Kind::kAnswer).known.failure.kind(), proto::OBJECT_LOST);
  directory_.node_has_copy(kThere, kMine, std::numeric_limits<int64_t>::max());
  directory_.resolve(2, kMine, true, kOther);
  EXPECT_EQ(only(Action::Kind::kAnswer).known.failure.kind(), proto::OUT_OF_MEMORY_ERROR);
  EXPECT_EQ(directory_.used_bytes(), 0);
}

// Random lives of three nodes joined by a lossless network: everything ends answered and empty.
class Lives {
 public:
  explicit Lives(uint32_t seed) : random_(seed) {
    for (NodeKey node = 0; node < kNodes; ++node) {
      nodes_.push_back(std::make_unique<Directory>(node + 1, 1 << 16, clock_));
      for (ProcessKey p = 0; p < 3; ++p) nodes_.back()->process_joined((node + 1) * 10 + p);
    }
  }

  void step() {
    NodeKey node = 1 + random_() % kNodes;
    ProcessKey process = node * 10 + random_() % 3;
    ObjectId object{1 + random_() % kNodes, 0, 1 + random_() % 6};
    object.process = object.home * 10 + object.counter % 3;
    bool own = object.process == process;
    switch (random_() % 7) {
      case 0:
        at(node).hold(process, object);
        break;
      case 1:
        at(node).drop(process, object);
        break;
      case 2:
        if (own) at(node).publish(process, object, value("v"));
        break;
      case 3:
        if (at(node).create(process, object, 100 + random_() % 4000)) at(node).seal(process, object);
        break;
      case 4:
        at(node).resolve(next_ticket(), object, true, process);
        break;
      case 5:
        at(node).unpin(process, object);
        break;
      case 6:
        clock_.advance(std::chrono::milliseconds(random_() % 900));
        at(node).sweep();
        break;
    }
    pump();
  }

  // Everybody dies; what is left must be nothing.
  void end() {
    for (int i = 0; i < 2; ++i) {
      clock_.advance(Directory::kLastLinger);
      for (NodeKey node = 1; node <= kNodes; ++node) at(node).sweep(), pump();
    }
    for (auto [ticket, answers] : tickets_) EXPECT_EQ(answers, 1) << ticket;
    for (NodeKey node = 1; node <= kNodes; ++node) {
      for (ProcessKey p = 0; p < 3; ++p) at(node).process_died(node * 10 + p, {}), dead_.insert(node * 10 + p);
      pump();
    }
    for (int i = 0; i < 4; ++i) {
      clock_.advance(Directory::kLinger);
      for (NodeKey node = 1; node <= kNodes; ++node) at(node).sweep(), pump();
    }
    for (NodeKey node = 1; node <= kNodes; ++node) {
      EXPECT_EQ(at(node).used_bytes(), 0) << "node " << node;
      EXPECT_EQ(at(node).size(), 0u) << "node " << node;
    }
    for (auto [ticket, answers] : tickets_) EXPECT_LE(answers, 1) << ticket;
  }

 private:
  static constexpr NodeKey kNodes = 3;
  Directory& at(NodeKey node) { return *nodes_[node - 1]; }
  Ticket next_ticket() {
    tickets_[++ticket_] = 0;
    return ticket_;
  }

  void pump() {
    for (bool again = true; again;) {
      again = false;
      for (NodeKey node = 1; node <= kNodes; ++node) {
        for (Action& action : at(node).take_actions()) again = true, carry(node, action);
      }
    }
  }

  void carry(NodeKey node, const Action& action) {
    switch (action.kind) {
      case Action::Kind::kAnswer:
        if (auto asker = askers_.find(action.ticket); asker != askers_.end()) {
          at(asker->second).home_answered(action.object, action.known);
        } else {
          ++tickets_.at(action.ticket);
        }
        break;
      case Action::Kind::kAskHome: {
        Ticket ticket = ++ticket_;
        askers_[ticket] = node;
        at(action.object.home).asked(ticket, action.object, action.avoid);
        break;
      }
      case Action::Kind::kTellHome:
        if (action.copy && action.held)
          at(action.object.home).node_has_copy(node, action.object, action.known.size_bytes);
        if (action.copy && !action.held) at(action.object.home).node_lost_copy(node, action.object);
        if (!action.copy && action.held) at(action.object.home).node_hold(node, action.object);
        if (!action.copy && !action.held) at(action.object.home).node_drop(node, action.object);
        break;
      case Action::Kind::kPull:
        if (at(action.node).sealed(action.object)) {
          at(node).pulled(action.object, std::nullopt);
        } else {
          at(node).pulled(action.object, proto::Failure());
        }
        break;
      case Action::Kind::kDropCopy:
        at(action.node).copy_dropped(action.object);
        break;
      case Action::Kind::kUnheld:
        break;
      case Action::Kind::kAskMinter:
        at(node).disowned(action.object.process, action.object);
        break;
    }
  }

  std::mt19937 random_;
  testkit::ManualClock clock_;
  std::vector<std::unique_ptr<Directory>> nodes_;
  std::map<Ticket, int> tickets_;
  std::map<Ticket, NodeKey> askers_;
  std::set<ProcessKey> dead_;
  Ticket ticket_ = 0;
};

TEST(DirectoryLives, EveryTicketIsAnsweredOnceAndNothingIsLeft) {  // invariants 1, 2, 4
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Lives lives(seed);
    for (int step = 0; step < 300; ++step) lives.step();
    lives.end();
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace rayo::object_store
