// What a user loses if these fail: a dead machine costs requests, an idle one stays idle, or a client waits for ever.
#include "examples/llm_serving/gateway/router.h"

#include <gtest/gtest.h>
#include <numeric>

namespace serving::gateway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const Instant kStart{};

EngineStatus ready() { return {.state = "ready", .kv_tokens = 8192}; }

std::vector<Token> prompt(size_t tokens, Token first = 0) {
  std::vector<Token> out(tokens);
  std::iota(out.begin(), out.end(), first);
  return out;
}

// A router with `count` ready replicas of two slots.
Router with_replicas(int count) {
  Router router;
  for (ReplicaId id = 1; id <= count; ++id) {
    router.add(id, 2, kStart);
    router.answered(id, ready(), kStart);
  }
  return router;
}

const Action& only(const Actions& actions) {
  EXPECT_EQ(actions.size(), 1u);
  return actions.at(0);
}

Action sent(Router& router, Ticket ticket, const std::vector<Token>& tokens = {}, Instant now = kStart) {
  const Actions actions = router.submit(ticket, tokens, now);
  EXPECT_EQ(only(actions).kind, Action::Kind::kSend);
  return actions.at(0);
}

TEST(Router, SpreadsOverIdleReplicas) {
  Router router = with_replicas(3);
  std::set<ReplicaId> used;
  for (Ticket ticket = 1; ticket <= 3; ++ticket) used.insert(sent(router, ticket).replica);
  EXPECT_EQ(used.size(), 3u);
}

TEST(Router, FollowsTheLongestPrefixWhileThereIsRoom) {
  Router router = with_replicas(3);
  const ReplicaId home = sent(router, 1, prompt(320)).replica;
  sent(router, 2, prompt(320, 5000));
  sent(router, 3, prompt(320, 9000));
  EXPECT_EQ(sent(router, 4, prompt(352)).replica, home);
  // Two slots are taken: waiting behind them would cost more than computing the prompt again.
  EXPECT_NE(sent(router, 5, prompt(352)).replica, home);
}

TEST(Router, NothingReadyIsSaidAtOnceWithProgress) {
  Router router;
  router.add(1, 2, kStart);
  router.answered(1, {.state = "loading", .load_progress = 0.425}, kStart);
  const Actions actions = router.submit(1, {}, kStart);
  const ApiError& error = only(actions).error;
  EXPECT_EQ(error.status, 503);
  EXPECT_EQ(error.message, "Loading model: 42 %.");
  EXPECT_LE(error.retry_after_s, 60);
}

TEST(Router, AFullReplicaIsPassedOverAndAllFullIs429) {
  Router router = with_replicas(2);
  const Action first = sent(router, 1);
  const Admission full{.verdict = Admission::Verdict::kFull, .reason = "256 requests wait", .retry_after_s = 7};
  const Actions again = router.refused(first.attempt, full, kStart);
  ASSERT_EQ(only(again).kind, Action::Kind::kSend);
  EXPECT_NE(again[0].replica, first.replica);
  const Actions end = router.refused(again[0].attempt, full, kStart);
  EXPECT_EQ(only(end).kind, Action::Kind::kFail);
  EXPECT_EQ(end[0].error.status, 429);
  EXPECT_EQ(end[0].error.retry_after_s, 7);
  const Actions next = router.submit(2, {}, kStart);
  EXPECT_EQ(only(next).error.status, 429);
  router.answered(2, ready(), kStart);
  EXPECT_EQ(sent(router, 3).replica, 2);
}

TEST(Router, WhatNeverFitsIsTheClientsFault) {
  Router router = with_replicas(2);
  const Action first = sent(router, 1);
  const Actions actions =
      router.refused(first.attempt, {.verdict = Admission::Verdict::kNeverFits, .reason = "9000 of 8192"}, kStart);
  EXPECT_EQ(only(actions).error.status, 400);
  EXPECT_EQ(actions[0].error.code, "context_length_exceeded");
}

TEST(Router, ADeadReplicasRequestsGoOnElsewhere) {
  Router router = with_replicas(2);
  const Action first = sent(router, 1);
  const Actions actions = router.died(first.replica, kStart);
  ASSERT_EQ(only(actions).kind, Action::Kind::kSend);
  EXPECT_EQ(actions[0].ticket, 1u);
  EXPECT_NE(actions[0].replica, first.replica);
  EXPECT_FALSE(router.ticket_of(first.attempt));  // what the dead one still says is nobody's
  EXPECT_EQ(router.ticket_of(actions[0].attempt), 1u);
  EXPECT_EQ(router.moves(), 1u);
}

TEST(Router, TheOnlyReplicasRequestsWaitForItsRestart) {
  Router router = with_replicas(1);
  sent(router, 1);
  EXPECT_TRUE(router.died(1, kStart).empty());
  EXPECT_EQ(router.waiting(), 1u);
  EXPECT_EQ(only(router.submit(2, {}, kStart)).error.status, 503);  // a new one does not queue up behind it
  EXPECT_TRUE(router.tick(kStart + seconds(30)).empty());
  const Actions actions = router.answered(1, ready(), kStart + seconds(31));
  EXPECT_EQ(only(actions).kind, Action::Kind::kSend);
  EXPECT_EQ(router.waiting(), 0u);
}

TEST(Router, PatienceEnds) {
  Router router = with_replicas(1);
  sent(router, 1);
  router.died(1, kStart);
  const Actions actions = router.tick(kStart + seconds(61));
  EXPECT_EQ(only(actions).kind, Action::Kind::kFail);
  EXPECT_EQ(actions[0].error.status, 503);
}

TEST(Router, ASilentReplicaLosesItsRequestsWithinItsTime) {
  Router router = with_replicas(2);
  const Action first = sent(router, 1);
  const ReplicaId other = first.replica == 1 ? 2 : 1;
  Instant now = kStart + milliseconds(2900);
  router.answered(other, ready(), now);
  EXPECT_TRUE(router.tick(now).empty());
  now += milliseconds(200);
  const Actions actions = router.tick(now);
  ASSERT_EQ(actions.size(), 2u);
  EXPECT_EQ(actions[0].kind, Action::Kind::kCancel);  // should it live after all, it need not go on
  EXPECT_EQ(actions[0].replica, first.replica);
  EXPECT_EQ(actions[1].kind, Action::Kind::kSend);
  EXPECT_EQ(actions[1].replica, other);
}

TEST(Router, ASilentReplicaKeepsItsRequestsWhileNobodyElseIsThere) {
  Router router = with_replicas(1);
  const Action first = sent(router, 1);
  EXPECT_TRUE(router.tick(kStart + seconds(10)).empty());
  EXPECT_TRUE(router.answered(1, ready(), kStart + seconds(11)).empty());
  EXPECT_EQ(router.ticket_of(first.attempt), 1u);  // it was only slow
}

TEST(Router, OneThatHangsGetsNothingNewWhileAnotherIsThere) {
  Router router = with_replicas(2);
  const Action first = sent(router, 1, prompt(320));
  const ReplicaId other = first.replica == 1 ? 2 : 1;
  // Its step does not end, its status is answered all the same.
  for (int halves = 1; halves <= 4; ++halves) {
    const Instant now = kStart + milliseconds(500 * halves);
    router.answered(first.replica, {.state = "ready", .kv_tokens = 8192, .step_under_way_s = 0.5 * halves}, now);
    router.answered(other, ready(), now);
    EXPECT_TRUE(router.tick(now).empty());
  }
  const Instant now = kStart + seconds(2);
  EXPECT_EQ(router.replicas().at(static_cast<size_t>(first.replica - 1)).state, ReplicaState::kHanging);
  EXPECT_TRUE(router.ready());
  // Whatever its prefix, and though the other one has no free slot any more.
  for (Ticket ticket = 2; ticket <= 5; ++ticket) EXPECT_EQ(sent(router, ticket, prompt(320), now).replica, other);
  // Where nobody else takes it, it does.
  router.died(other, now);
  EXPECT_EQ(sent(router, 6, {}, now).replica, first.replica);
  router.answered(other, ready(), now);
  // A token: it goes on after all, and is chosen for its prefix again.
  for (Ticket ticket = 2; ticket <= 6; ++ticket) router.ended(ticket);
  router.stepped(first.replica, now);
  router.tick(now);
  EXPECT_EQ(sent(router, 7, prompt(320), now).replica, first.replica);
}

TEST(Router, OneThatFellSilentIsPassedOverBeforeItIsSuspect) {
  Router router = with_replicas(2);
  const Action first = sent(router, 1);
  const ReplicaId other = first.replica == 1 ? 2 : 1;
  const Instant now = kStart + milliseconds(1500);
  router.answered(other, ready(), now);
  EXPECT_TRUE(router.tick(now).empty());
  for (Ticket ticket = 2; ticket <= 4; ++ticket) EXPECT_EQ(sent(router, ticket, {}, now).replica, other);
}

TEST(Router, ARequestThatKillsEnginesIsGivenUp) {
  Router router = with_replicas(2);
  Action at = sent(router, 1);
  for (int deaths = 1; deaths < 5; ++deaths) {
    const Actions actions = router.died(at.replica, kStart);
    ASSERT_EQ(only(actions).kind, Action::Kind::kSend) << deaths;
    router.answered(at.replica, ready(), kStart);
    at = actions[0];
  }
  const Actions last = router.died(at.replica, kStart);
  EXPECT_EQ(only(last).kind, Action::Kind::kFail);
  EXPECT_EQ(last[0].error.status, 500);
}

TEST(Router, AFailedAttemptTriesAnotherReplicaFirst) {
  Router router = with_replicas(2);
  const Action first = sent(router, 1, prompt(320));
  const Actions actions = router.failed(first.attempt, "decode failed", kStart);
  EXPECT_NE(only(actions).replica, first.replica);
}

TEST(Router, AnEndIsToldToTheEngineOnceAndFreesItsPlace) {
  Router router = with_replicas(1);
  const Action first = sent(router, 1);
  const Actions actions = router.ended(1);
  EXPECT_EQ(only(actions).kind, Action::Kind::kCancel);
  EXPECT_EQ(actions[0].attempt, first.attempt);
  EXPECT_TRUE(router.ended(1).empty());
  EXPECT_TRUE(router.idle(1));
  EXPECT_FALSE(router.ticket_of(first.attempt));
}

TEST(Router, ADrainedReplicaEndsItsWorkAndGetsNoNew) {
  Router router = with_replicas(2);
  const Action first = sent(router, 1);
  router.drain(first.replica);
  EXPECT_FALSE(router.idle(first.replica));
  for (Ticket ticket = 2; ticket < 5; ++ticket) EXPECT_NE(sent(router, ticket).replica, first.replica);
  router.ended(1);
  EXPECT_TRUE(router.idle(first.replica));
  EXPECT_TRUE(router.remove(first.replica, kStart).empty());
  EXPECT_EQ(router.replicas().size(), 1u);
}

TEST(Router, ClosedRefusesNewOnesAndFinishesOld) {
  Router router = with_replicas(2);
  const Action first = sent(router, 1);
  router.close();
  EXPECT_EQ(only(router.submit(2, {}, kStart)).error.status, 503);
  EXPECT_EQ(only(router.died(first.replica, kStart)).kind, Action::Kind::kSend);
}

// Whatever happens in whatever order: each accepted request is with at most one replica, and every one ends.
TEST(Router, ThousandsOfLives) {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    uint32_t state = seed;
    const auto draw = [&state](uint32_t below) {
      return (state = state * 1664525 + 1013904223) >> 8 & 0xFFFFFF ? (state >> 8) % below : 0;
    };
    Router router = with_replicas(3);
    std::map<Ticket, std::optional<Attempt>> open;
    Instant now = kStart;
    const auto perform = [&](const Actions& actions) {
      for (const Action& action : actions) {
        if (action.kind == Action::Kind::kSend) open[action.ticket] = action.attempt;
        if (action.kind == Action::Kind::kFail) open.erase(action.ticket);
      }
    };
    const auto any_attempt = [&]() -> Attempt {
      if (open.empty()) return 0;
      return std::next(open.begin(), draw(static_cast<uint32_t>(open.size())))->second.value_or(0);
    };
    for (Ticket ticket = 1; ticket <= 300; ++ticket) {
      now += milliseconds(draw(800));
      const auto replica = static_cast<ReplicaId>(1 + draw(3));
      switch (draw(8)) {
        case 0:
          perform(router.died(replica, now));
          break;
        case 1:
          perform(router.refused(any_attempt(), {.verdict = Admission::Verdict::kFull}, now));
          break;
        case 2:
          perform(router.failed(any_attempt(), "x", now));
          break;
        case 3:
          if (!open.empty()) {
            const Ticket gone = open.begin()->first;
            open.erase(gone);
            perform(router.ended(gone));
          }
          break;
        case 4:
          perform(router.tick(now));
          break;
        case 5:
          perform(router.answered(replica, ready(), now));
          break;
        default:
          open[ticket];
          perform(router.submit(ticket, prompt(draw(200), static_cast<Token>(draw(3))), now));
      }
      size_t in_flight = 0;
      for (const ReplicaView& view : router.replicas()) in_flight += view.in_flight;
      ASSERT_EQ(in_flight + router.waiting(), open.size()) << "seed " << seed << " step " << ticket;
    }
    perform(router.died(1, now)), perform(router.died(2, now)), perform(router.died(3, now));
    now += seconds(61);
    perform(router.tick(now));
    ASSERT_TRUE(open.empty()) << "seed " << seed;
  }
}

TEST(PrefixIndex, ForgetsTheOldestEndsFirst) {
  PrefixIndex index(8);
  const auto a = block_hashes(prompt(8 * kBlockTokens));
  const auto b = block_hashes(prompt(4 * kBlockTokens, 7000));
  index.insert(a);
  EXPECT_EQ(index.longest(a), 8u);
  index.insert(b);
  EXPECT_EQ(index.size(), 8u);
  EXPECT_EQ(index.longest(b), 4u);
  EXPECT_EQ(index.longest(a), 4u);  // its beginning, which others may share, is kept
  EXPECT_EQ(index.longest(block_hashes(prompt(40, 1))), 0u);
}

}  // namespace
}  // namespace serving::gateway
