// What a user loses if these fail: two actors answer to one name, a dead actor keeps its name for ever, or a
// message of an old life changes the new one. Numbers are the invariants of runtime/head/actor_directory.h.
#include "runtime/head/actor_directory.h"

#include <gtest/gtest.h>

#include "runtime/head/records.h"
#include "runtime/rpc/proto_ids.h"

namespace rayo::head {
namespace {

using Creation = ActorDirectory::Creation;
const NodeId kNode{1, 1};
const NodeId kOther{2, 2};
const JobId kJob{9, 9};

proto::CreateActor request(uint64_t n, const std::string& name = "", int max_restarts = 0) {
  proto::CreateActor out;
  auto* spec = out.mutable_spec();
  rpc::to_proto(ActorId{n, n}, spec->mutable_actor());
  rpc::to_proto(kJob, spec->mutable_job());
  spec->set_name(name);
  spec->set_namespace_("lab");
  spec->set_class_name("Counter");
  spec->set_max_restarts(max_restarts);
  return out;
}

struct Fixture : ::testing::Test {
  ActorDirectory actors;
  ActorChanges changes;

  ActorId make(uint64_t n, const std::string& name = "", int max_restarts = 0) {
    auto created = actors.create(request(n, name, max_restarts), kNode, 1, changes);
    EXPECT_EQ(created.outcome, Creation::kNew);
    actors.admit(created.actor, changes);
    return created.actor;
  }
  proto::ActorInfo said(ActorId id, proto::ActorState state) {
    proto::ActorInfo info = actors.find(id)->info;
    info.set_state(state);
    rpc::to_proto(kNode, info.mutable_address()->mutable_node());
    return info;
  }
  ActorId make_alive(uint64_t n, const std::string& name = "", int max_restarts = 0) {
    auto id = make(n, name, max_restarts);
    actors.start(id, kNode, 2, changes);
    actors.report(kNode, said(id, proto::ALIVE), 3, changes);
    changes = {};
    return id;
  }
  void hold(ActorId id, NodeId node) {
    proto::ActorHandles held;
    rpc::to_proto(id, held.add_held());
    actors.handles(node, held, 4, changes);
  }
  proto::ActorState state(ActorId id) { return actors.find(id)->info.state(); }
  bool erased(const std::string& table) {
    return std::ranges::any_of(changes.persist.writes(), [&](const Write& w) { return w.table == table && !w.value; });
  }
};

using ActorDirectoryTest = Fixture;

TEST_F(ActorDirectoryTest, AnActorGoesFromPendingToAliveToDead) {
  auto id = make(1);
  ASSERT_EQ(changes.place.size(), 1u);
  actors.start(id, kNode, 2, changes);
  EXPECT_EQ(state(id), proto::STARTING);
  actors.report(kNode, said(id, proto::ALIVE), 3, changes);
  EXPECT_EQ(state(id), proto::ALIVE);
  auto dead = said(id, proto::DEAD);
  *dead.mutable_death() = death_record(proto::SIGNAL, kNode, "signal 11", 4);
  actors.report(kNode, dead, 4, changes);
  EXPECT_EQ(state(id), proto::DEAD);
  EXPECT_EQ(actors.find(id)->info.death().kind(), proto::SIGNAL);
  EXPECT_EQ(actors.counts().dead, 1);
  EXPECT_EQ(actors.counts().alive, 0);
}

TEST_F(ActorDirectoryTest, ANameHasOneHolderAndIsFreeInTheBatchOfTheDeath) {  // 1
  auto id = make_alive(1, "hits");
  auto second = actors.create(request(2, "hits"), kNode, 1, changes);
  EXPECT_EQ(second.outcome, Creation::kRefused);
  EXPECT_NE(second.failure.text().find("'hits' is taken"), std::string::npos);
  EXPECT_EQ(actors.named("lab", "hits"), id);
  EXPECT_FALSE(actors.named("other", "hits"));
  actors.end(id, death_record(proto::KILLED, {}, "killed", 5), nullptr, changes);
  EXPECT_TRUE(erased("names"));
  EXPECT_EQ(actors.create(request(2, "hits"), kNode, 1, changes).outcome, Creation::kNew);
}

TEST_F(ActorDirectoryTest, GetOrCreateGivesTheLivingOne) {  // 1, 4
  auto id = make_alive(1, "hits");
  auto again = request(2, "hits");
  again.set_get_if_exists(true);
  auto created = actors.create(again, kOther, 1, changes);
  EXPECT_EQ(created.outcome, Creation::kExisting);
  EXPECT_EQ(created.actor, id);
  EXPECT_FALSE(actors.find({2, 2}));
  EXPECT_TRUE(actors.find(id)->holders.contains(kOther));
}

TEST_F(ActorDirectoryTest, ACreationThatIsBeingWrittenIsNeitherPlacedNorTold) {
  auto created = actors.create(request(1, "hits"), kNode, 1, changes);
  EXPECT_TRUE(changes.place.empty());
  auto same = request(2, "hits");
  same.set_get_if_exists(true);
  EXPECT_EQ(actors.create(same, kOther, 1, changes).outcome, Creation::kBeingWritten);
  actors.abandon(created.actor);  // the disk is full
  EXPECT_FALSE(actors.find(created.actor));
  EXPECT_EQ(actors.counts().pending, 0);
  EXPECT_EQ(actors.create(same, kOther, 1, changes).outcome, Creation::kNew);
}

TEST_F(ActorDirectoryTest, CreatingTwiceIsCreatingOnce) {  // 4
  auto id = make(1, "hits");
  EXPECT_EQ(actors.create(request(1, "hits"), kNode, 1, changes).outcome, Creation::kExisting);
  actors.admit(id, changes);
  EXPECT_EQ(changes.place.size(), 1u);
  EXPECT_EQ(actors.counts().pending, 1);
}

TEST_F(ActorDirectoryTest, AnOldIncarnationChangesNothingAndIsEnded) {  // 2
  auto id = make_alive(1, "hits", 1);
  hold(id, kOther);
  auto old = said(id, proto::ALIVE);
  actors.node_died(kNode, death_record(proto::NODE_LOST, kNode, "lost", 5), 5, changes);
  EXPECT_EQ(state(id), proto::RESTARTING);
  EXPECT_EQ(actors.find(id)->info.incarnation(), 2u);
  actors.start(id, kOther, 6, changes);
  changes = {};
  actors.report(kNode, old, 7, changes);  // the lost node is back and says that it has the actor
  EXPECT_EQ(state(id), proto::STARTING);
  ASSERT_EQ(changes.end.size(), 1u);
  EXPECT_EQ(changes.end[0].node, kNode);
  EXPECT_EQ(changes.end[0].order.incarnation(), 1u);
  EXPECT_EQ(changes.end[0].order.why().kind(), proto::FENCED);
}

TEST_F(ActorDirectoryTest, RestartsAreCountedAndThenItIsDead) {
  auto id = make_alive(1, "hits", 1);
  auto dead = said(id, proto::DEAD);
  *dead.mutable_death() = death_record(proto::SIGNAL, kNode, "signal 9", 4);
  actors.report(kNode, dead, 4, changes);
  EXPECT_EQ(state(id), proto::RESTARTING);
  EXPECT_EQ(changes.place.size(), 1u);
  EXPECT_TRUE(actors.named("lab", "hits"));
  actors.start(id, kNode, 5, changes);
  actors.report(kNode, said(id, proto::ALIVE), 6, changes);
  dead.set_incarnation(2);
  actors.report(kNode, dead, 7, changes);
  EXPECT_EQ(state(id), proto::DEAD);
  EXPECT_FALSE(actors.named("lab", "hits"));
}

// An actor that dies as soon as it lives must not take a node's processes; one that lived well comes back at once.
TEST_F(ActorDirectoryTest, RestartsBackOffAndALongLifeIsForgiven) {
  constexpr int64_t kSecond = 1'000'000;
  auto id = make_alive(1, "hits", -1);
  int64_t now = 3;
  auto die_after = [&](int64_t life_us) {
    now += life_us;
    auto dead = said(id, proto::DEAD);
    *dead.mutable_death() = death_record(proto::SIGNAL, kNode, "signal 9", now);
    changes = {};
    actors.report(kNode, dead, now, changes);
    EXPECT_EQ(changes.place.size(), 1u);
    const auto wait = changes.place.at(0).wait;
    actors.start(id, kNode, ++now, changes);
    actors.report(kNode, said(id, proto::ALIVE), ++now, changes);
    return std::chrono::duration_cast<std::chrono::seconds>(wait).count();
  };
  std::vector<int64_t> waits;
  for (int i = 0; i < 9; ++i) waits.push_back(die_after(kSecond));
  EXPECT_EQ(waits, (std::vector<int64_t>{0, 1, 2, 4, 8, 16, 30, 30, 30}));
  EXPECT_EQ(die_after(59 * kSecond), 30);
  EXPECT_EQ(die_after(60 * kSecond), 0);
  EXPECT_EQ(die_after(kSecond), 1);
  EXPECT_EQ(actors.find(id)->info.incarnation(), 13u);
}

TEST_F(ActorDirectoryTest, ADetachedActorOutlivesItsHandlesAndTheirNodes) {
  auto nameless = request(7);
  nameless.mutable_spec()->set_detached(true);
  EXPECT_EQ(actors.create(nameless, kNode, 1, changes).outcome, Creation::kRefused);
  auto asked = request(1, "keeper");
  asked.mutable_spec()->set_detached(true);
  auto id = actors.create(asked, kOther, 1, changes).actor;
  actors.admit(id, changes);
  actors.start(id, kNode, 2, changes);
  actors.report(kNode, said(id, proto::ALIVE), 3, changes);
  proto::ActorHandles dropped;
  rpc::to_proto(id, dropped.add_dropped());
  actors.handles(kOther, dropped, 5, changes);
  EXPECT_EQ(state(id), proto::ALIVE);
  hold(id, kOther);
  actors.node_died(kOther, death_record(proto::NODE_LOST, kOther, "lost", 6), 6, changes);
  EXPECT_EQ(state(id), proto::ALIVE);
  EXPECT_TRUE(actors.named("lab", "keeper"));
  actors.end(id, death_record(proto::KILLED, {}, "killed", 7), nullptr, changes);
  EXPECT_EQ(state(id), proto::DEAD);
  EXPECT_FALSE(actors.named("lab", "keeper"));
}

TEST_F(ActorDirectoryTest, AKilledActorIsNotRestarted) {
  auto id = make_alive(1, "", -1);
  actors.end(id, death_record(proto::KILLED, {}, "killed", 5), nullptr, changes);
  EXPECT_EQ(state(id), proto::DEAD);
  ASSERT_EQ(changes.end.size(), 1u);
  auto again = said(id, proto::DEAD);  // 3: what the node says of the end changes the record no more
  *again.mutable_death() = death_record(proto::SIGNAL, kNode, "signal 9", 6);
  actors.report(kNode, again, 6, changes);
  EXPECT_EQ(actors.find(id)->info.death().kind(), proto::KILLED);
}

// kill with no_restart = false: the next life must not begin beside the one that is being ended, nor be ended by a second order.
TEST_F(ActorDirectoryTest, ALifeThatIsKilledIsFollowedByTheNextAsOftenAsItMay) {
  auto id = make_alive(1, "hits", 1);
  const auto why = death_record(proto::KILLED, {}, "killed", 5);
  ASSERT_TRUE(actors.end_life(id, 1, why, changes));
  EXPECT_EQ(state(id), proto::ALIVE) << "until its process is reaped";
  ASSERT_EQ(changes.end.size(), 1u);
  EXPECT_EQ(changes.end[0].order.incarnation(), 1u);
  EXPECT_TRUE(changes.end[0].order.why().may_restart());
  auto dead = said(id, proto::DEAD);
  *dead.mutable_death() = changes.end[0].order.why();
  actors.report(kNode, dead, 6, changes);
  EXPECT_EQ(state(id), proto::RESTARTING);
  EXPECT_EQ(actors.find(id)->info.restarts(), 1);
  EXPECT_EQ(actors.find(id)->info.death().kind(), proto::KILLED);
  EXPECT_TRUE(actors.named("lab", "hits"));
  EXPECT_FALSE(actors.end_life(id, 0, why, changes)) << "none is left";
  actors.start(id, kNode, 7, changes);
  actors.report(kNode, said(id, proto::ALIVE), 8, changes);
  dead.set_incarnation(2);
  actors.report(kNode, dead, 9, changes);
  EXPECT_EQ(state(id), proto::DEAD);
}

TEST_F(ActorDirectoryTest, ALifeIsKilledOnceHoweverOftenTheOrderComes) {  // 4
  auto id = make_alive(1, "hits", -1);
  const auto why = death_record(proto::KILLED, {}, "killed", 5);
  ASSERT_TRUE(actors.end_life(id, 1, why, changes));
  auto dead = said(id, proto::DEAD);
  *dead.mutable_death() = changes.end[0].order.why();
  actors.report(kNode, dead, 6, changes);
  changes = {};
  EXPECT_TRUE(actors.end_life(id, 0, why, changes));
  EXPECT_TRUE(changes.end.empty()) << "it has no process";
  actors.start(id, kNode, 7, changes);
  actors.report(kNode, said(id, proto::ALIVE), 8, changes);
  changes = {};
  EXPECT_TRUE(actors.end_life(id, 1, why, changes));
  EXPECT_TRUE(changes.end.empty()) << "the life that was meant is over";
  EXPECT_EQ(state(id), proto::ALIVE);
}

TEST_F(ActorDirectoryTest, AKillThatMeetsTheConstructorBeginsItAnew) {
  auto id = make(1, "hits", 1);
  actors.start(id, kNode, 2, changes);
  changes = {};
  ASSERT_TRUE(actors.end_life(id, 0, death_record(proto::KILLED, {}, "killed", 5), changes));
  auto dead = said(id, proto::DEAD);
  *dead.mutable_death() = changes.end[0].order.why();
  dead.mutable_failure()->set_kind(proto::ACTOR_DIED);
  actors.report(kNode, dead, 6, changes);
  EXPECT_EQ(state(id), proto::RESTARTING);
  EXPECT_EQ(actors.find(id)->info.restarts(), 1);
}

TEST_F(ActorDirectoryTest, ARefusalIsPlacedAgain) {
  auto id = make(1);
  actors.start(id, kNode, 2, changes);
  changes = {};
  auto refusal = said(id, proto::PENDING);
  refusal.add_reasons()->set_code("worker_start");
  actors.report(kNode, refusal, 3, changes);
  EXPECT_EQ(state(id), proto::PENDING);
  ASSERT_EQ(changes.place.size(), 1u);
  EXPECT_EQ(changes.place[0].refused_by, kNode);
  EXPECT_EQ(actors.find(id)->info.reasons(0).code(), "worker_start");
}

TEST_F(ActorDirectoryTest, AConstructorCutShortByALostNodeRunsElsewhere) {
  auto id = make(1);
  actors.start(id, kNode, 2, changes);
  changes = {};
  actors.node_died(kNode, death_record(proto::NODE_LOST, kNode, "lost", 5), 5, changes);
  EXPECT_EQ(state(id), proto::DEAD);  // its only handle was on that node, too
  auto kept = make(2);
  hold(kept, kOther);
  actors.start(kept, kNode, 6, changes);
  actors.node_died(kNode, death_record(proto::NODE_LOST, kNode, "lost", 7), 7, changes);
  EXPECT_EQ(state(kept), proto::PENDING);
  EXPECT_EQ(actors.find(kept)->info.incarnation(), 2u);
}

TEST_F(ActorDirectoryTest, TheLastHandleEndsAnActorAndFreesItsName) {
  auto named = make_alive(2, "hits");
  proto::ActorHandles held, dropped;
  rpc::to_proto(named, held.add_held());
  rpc::to_proto(named, dropped.add_dropped());
  actors.handles(kOther, held, 4, changes);
  actors.handles(kNode, dropped, 5, changes);
  EXPECT_EQ(state(named), proto::ALIVE);
  EXPECT_TRUE(actors.named("lab", "hits"));
  actors.handles(kOther, dropped, 6, changes);
  actors.handles(kOther, dropped, 6, changes);
  EXPECT_EQ(state(named), proto::DEAD);
  EXPECT_EQ(actors.find(named)->info.death().kind(), proto::OUT_OF_SCOPE);
  EXPECT_FALSE(actors.named("lab", "hits"));
  EXPECT_EQ(changes.end.size(), 1u);
}

TEST_F(ActorDirectoryTest, AStreamThatComesAgainSettlesWhatWasLostOnTheWay) {
  auto starting = make(1);
  actors.start(starting, kNode, 2, changes);
  auto alive = make_alive(2);
  auto gone = make_alive(3);
  changes = {};
  actors.reconcile(kNode, {said(alive, proto::ALIVE)}, 5, changes);
  EXPECT_EQ(changes.resend, std::vector<ActorId>{starting});
  EXPECT_EQ(state(alive), proto::ALIVE);
  EXPECT_EQ(state(gone), proto::DEAD);
}

TEST_F(ActorDirectoryTest, HistoryIsBounded) {
  ActorDirectory small(3, 1 << 20);
  for (uint64_t n = 1; n <= 10; ++n) {
    small.create(request(n), kNode, 1, changes);
    small.end({n, n}, death_record(proto::KILLED, {}, "", 2), nullptr, changes);
  }
  EXPECT_EQ(small.all().size(), 3u);
  EXPECT_EQ(small.counts().dead, 10);
  EXPECT_TRUE(erased("actors"));
  ActorDirectory few_bytes(1000, 300);
  for (uint64_t n = 1; n <= 50; ++n) {
    few_bytes.create(request(n), kNode, 1, changes);
    few_bytes.end({n, n}, death_record(proto::KILLED, {}, std::string(100, 'x'), 2), nullptr, changes);
  }
  EXPECT_LE(few_bytes.all().size(), 3u);
}

TEST_F(ActorDirectoryTest, NamesAreTextOnOneLine) {
  for (const std::string& name : {std::string("\x1b[2J"), std::string("two\nlines"), std::string(257, 'x'),
                                  std::string("a\0b", 3), std::string("caf\xe9")}) {
    auto created = actors.create(request(1, name), kNode, 1, changes);
    EXPECT_EQ(created.outcome, Creation::kRefused) << name;
    EXPECT_NE(created.failure.next_step().find("256 bytes"), std::string::npos);
  }
  EXPECT_EQ(actors.create(request(1, "h\xc3\xa4ufig/2"), kNode, 1, changes).outcome, Creation::kNew);
}

TEST_F(ActorDirectoryTest, ABadDemandIsRefusedWithWords) {
  auto bad = request(1);
  (*bad.mutable_spec()->mutable_demand()->mutable_resources()->mutable_units())["gpu"] = 15'000;
  auto created = actors.create(bad, kNode, 1, changes);
  EXPECT_EQ(created.outcome, Creation::kRefused);
  EXPECT_NE(created.failure.text().find("1.5 GPU"), std::string::npos);
  auto nameless = request(2);
  nameless.set_get_if_exists(true);
  EXPECT_EQ(actors.create(nameless, kNode, 1, changes).outcome, Creation::kRefused);
}

// A head that is new knows no handles: the first node that drops its own must not end what others hold.
TEST_F(ActorDirectoryTest, AfterARestartNobodyIsUnheldBeforeAllNodesHaveTold) {  // 5
  for (bool held : {true, false}) {
    auto id = make_alive(held ? 1 : 2);
    proto::StoredActor row;
    *row.mutable_spec() = actors.find(id)->spec;
    *row.mutable_info() = actors.find(id)->info;
    rpc::to_proto(kNode, row.mutable_node());
    ActorDirectory again;
    again.restore(row);
    again.lost_sight_of(kNode);
    again.lost_sight_of(kOther);
    auto restored = [&] { return again.find(id)->info.state(); };
    again.holds_only(kNode, {id}, 5, changes);
    proto::ActorHandles dropped;
    rpc::to_proto(id, dropped.add_dropped());
    again.handles(kNode, dropped, 6, changes);
    EXPECT_EQ(restored(), proto::ALIVE) << "the other node has not told";
    again.holds_only(kOther, held ? std::set<ActorId>{id} : std::set<ActorId>(), 7, changes);
    EXPECT_EQ(restored(), held ? proto::ALIVE : proto::DEAD);
    if (held) again.handles(kOther, dropped, 8, changes);
    EXPECT_EQ(restored(), proto::DEAD);
    EXPECT_EQ(again.find(id)->info.death().kind(), proto::OUT_OF_SCOPE);
  }
}

TEST_F(ActorDirectoryTest, ANodeThatDiesOutOfSightHoldsNothing) {  // 5
  auto id = make_alive(1);
  actors.lost_sight_of(kOther);
  proto::ActorHandles dropped;
  rpc::to_proto(id, dropped.add_dropped());
  actors.handles(kNode, dropped, 5, changes);
  EXPECT_EQ(state(id), proto::ALIVE);
  actors.node_died(kOther, death_record(proto::NODE_LOST, kOther, "lost", 6), 6, changes);
  EXPECT_EQ(state(id), proto::DEAD);
}

TEST_F(ActorDirectoryTest, RowsBringEverythingBack) {
  auto id = make_alive(1, "hits", 2);
  make_alive(2, "gone");
  actors.end({2, 2}, death_record(proto::KILLED, {}, "", 2), nullptr, changes);
  auto row = [&](ActorId of) {
    proto::StoredActor out;
    *out.mutable_spec() = actors.find(of)->spec;
    *out.mutable_info() = actors.find(of)->info;
    rpc::to_proto(actors.find(of)->node, out.mutable_node());
    return out;
  };
  ActorDirectory again;
  again.restore(row(id));
  again.restore(row({2, 2}));
  EXPECT_EQ(again.named("lab", "hits"), id);
  EXPECT_FALSE(again.named("lab", "gone"));
  EXPECT_EQ(again.find(id)->node, kNode);
  EXPECT_EQ(again.counts().alive, 1);
  EXPECT_EQ(again.counts().dead, 1);
}

}  // namespace
}  // namespace rayo::head
