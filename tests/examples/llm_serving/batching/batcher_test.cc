// A client loses if these fail: its answer waits behind a stranger's prompt, its request starves, or the cache
// overflows and somebody's answer is thrown away.
#include "examples/llm_serving/batching/batcher.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <set>

namespace serving {
namespace {

BatchLimits small_limits() {
  BatchLimits limits;
  limits.context_tokens = 200;
  limits.kv_tokens = 400;
  limits.parallel = 4;
  limits.sequences = 6;
  limits.chunk_tokens = 32;
  limits.embed_tokens = 8;
  limits.queue_limit = 8;
  return limits;
}

std::vector<Token> tokens_from(Token first, int32_t count) {
  std::vector<Token> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

Work work_of(uint64_t key, std::vector<Token> prompt, int32_t max_output, const std::string& client = "a") {
  const auto prompt_tokens = static_cast<int32_t>(prompt.size());
  return {key, client, std::move(prompt), prompt_tokens, max_output, false};
}

// What libllama's unified cache holds: made from the plans alone, with cells of its own.
class FakeCache {
 public:
  explicit FakeCache(const BatchLimits& limits) : limits_(limits), sequences_(limits.sequences) {}

  void apply(const Plan& plan) {
    for (const CacheChange& change : plan.changes) {
      auto& own = sequences_[change.sequence];
      if (change.kind == CacheChange::Kind::kCut) {
        ASSERT_LE(change.tokens, static_cast<int32_t>(own.size()));
        own.resize(change.tokens);
      } else {
        const auto& source = sequences_[change.source];
        ASSERT_TRUE(own.empty());
        ASSERT_LE(change.tokens, static_cast<int32_t>(source.size()));
        own.assign(source.begin(), source.begin() + change.tokens);
      }
    }
    for (const Piece& piece : plan.pieces) {
      auto& own = sequences_[piece.sequence];
      ASSERT_EQ(static_cast<int32_t>(own.size()), piece.start) << "a gap or a doubled token";
      for (Token token : piece.tokens) own.push_back({token, next_cell_++});
    }
    std::set<int64_t> cells;
    for (const auto& sequence : sequences_) {
      for (const auto& [token, cell] : sequence) cells.insert(cell);
    }
    used_ = static_cast<int32_t>(cells.size());
    ASSERT_LE(used_, limits_.kv_tokens) << "the cache overflows";
  }

  std::vector<Token> tokens(int32_t sequence) const {
    std::vector<Token> out;
    for (const auto& [token, cell] : sequences_[sequence]) out.push_back(token);
    return out;
  }
  int32_t used() const { return used_; }

 private:
  const BatchLimits limits_;
  std::vector<std::vector<std::pair<Token, int64_t>>> sequences_;
  int64_t next_cell_ = 0;
  int32_t used_ = 0;
};

// Runs until nothing is left; gives the keys in the order of their ends. An output token is 1000 + its place.
std::vector<uint64_t> run_all(Batcher& batcher) {
  std::vector<uint64_t> ended;
  for (int step = 0; step < 10000 && !batcher.idle(); ++step) {
    const Plan plan = batcher.plan();
    for (const Piece& piece : plan.pieces) {
      if (!piece.wants_output) continue;
      if (batcher.produced(piece.key, 1000 + piece.start + static_cast<int32_t>(piece.tokens.size()))) {
        batcher.finish(piece.key);
        ended.push_back(piece.key);
      }
    }
  }
  return ended;
}

int32_t cached_of(const Plan& plan, uint64_t key) {
  for (const Start& start : plan.started) {
    if (start.key == key) return start.cached_tokens;
  }
  return -1;
}

TEST(Batcher, APromptComesInChunksAndDecodingGoesOnMeanwhile) {
  Batcher batcher(small_limits());
  batcher.admit(work_of(1, tokens_from(0, 4), 100));
  for (const Piece& piece : batcher.plan().pieces) batcher.produced(piece.key, 7);
  batcher.admit(work_of(2, tokens_from(500, 100), 10));
  for (int step = 0; step < 3; ++step) {
    const Plan plan = batcher.plan();
    ASSERT_EQ(plan.pieces.size(), 2u);
    EXPECT_EQ(plan.pieces[0].key, 1u);
    EXPECT_EQ(plan.pieces[0].tokens.size(), 1u);
    EXPECT_EQ(plan.pieces[1].tokens.size(), 32u);
    EXPECT_FALSE(plan.pieces[1].wants_output);
    batcher.produced(1, 7);
  }
  const Plan last = batcher.plan();
  EXPECT_EQ(last.pieces[1].tokens.size(), 4u);
  EXPECT_TRUE(last.pieces[1].wants_output);
}

TEST(Batcher, AShortContextIsComputedInSmallStepsAndTheRestOfALongOneInWholeChunks) {
  BatchLimits limits = small_limits();
  limits.exact_rows = 20;
  limits.exact_context = 50;
  Batcher batcher(limits);
  batcher.admit(work_of(1, tokens_from(0, 4), 100));
  for (const Piece& piece : batcher.plan().pieces) batcher.produced(piece.key, 7);
  batcher.admit(work_of(2, tokens_from(500, 120), 10));
  batcher.admit(work_of(3, tokens_from(800, 30), 10));
  std::vector<size_t> rows;
  std::vector<bool> third;
  while (batcher.running() < 3 || rows.size() < 6) {
    const Plan plan = batcher.plan();
    size_t count = 0;
    for (const Piece& piece : plan.pieces) count += piece.tokens.size();
    rows.push_back(count);
    third.push_back(plan.pieces.size() > 2);
    batcher.produced(1, 7);
  }
  // 57 tokens of the second in exact steps (19 beside the one that decodes); then its rest in chunks of 32, alone.
  EXPECT_EQ(rows, (std::vector<size_t>{20, 20, 20, 33, 32, 20}));
  EXPECT_EQ(third, (std::vector<bool>{false, false, false, false, false, false}));
}

TEST(Batcher, APromptWhoseEveryTokenIsAnOutputComesWholeAndInSmallSteps) {
  BatchLimits limits = small_limits();
  limits.embed_tokens = 10;
  Batcher batcher(limits);
  batcher.admit(work_of(1, tokens_from(0, 25), 1));
  run_all(batcher);  // now the cache holds this prompt
  for (uint64_t key = 2; key <= 3; ++key) {
    Work work = work_of(key, tokens_from(0, 25), 1);
    work.every_output = true;
    batcher.admit(work);
  }
  std::map<uint64_t, int32_t> told;
  while (!batcher.idle()) {
    const Plan plan = batcher.plan();
    int32_t outputs = 0;
    for (const Piece& piece : plan.pieces) {
      EXPECT_TRUE(piece.every_output);
      EXPECT_EQ(piece.start, told[piece.key]) << "nothing of the prompt is left out";
      told[piece.key] += static_cast<int32_t>(piece.tokens.size());
      outputs += static_cast<int32_t>(piece.tokens.size());
      if (piece.wants_output && batcher.produced(piece.key, 7)) batcher.finish(piece.key);
    }
    EXPECT_LE(outputs, 10 + 1);  // one may be a last token, which comes alone
  }
  EXPECT_EQ(told[2], 25);
  EXPECT_EQ(told[3], 25);
}

TEST(Batcher, ASystemPromptIsComputedOnceForAll) {
  Batcher batcher(small_limits());
  for (uint64_t key = 1; key <= 3; ++key) {
    std::vector<Token> prompt = tokens_from(0, 60);
    prompt.push_back(static_cast<Token>(1000 * key));
    batcher.admit(work_of(key, prompt, 2));
  }
  int32_t computed = 0;
  std::map<uint64_t, int32_t> cached;
  while (!batcher.idle()) {
    const Plan plan = batcher.plan();
    for (const Start& start : plan.started) cached[start.key] = start.cached_tokens;
    for (const Piece& piece : plan.pieces) {
      computed += static_cast<int32_t>(piece.tokens.size());
      if (piece.wants_output && batcher.produced(piece.key, 9)) batcher.finish(piece.key);
    }
  }
  EXPECT_EQ(cached[1], 0);
  EXPECT_EQ(cached[2], 60);
  EXPECT_EQ(cached[3], 60);
  EXPECT_EQ(computed, 61 + 1 + 1 + 3) << "each token of the shared part once, and a second output token for each";
}

TEST(Batcher, AConversationGoesOnWhereItsCacheEnds) {
  Batcher batcher(small_limits());
  batcher.admit(work_of(1, tokens_from(0, 20), 3));
  run_all(batcher);
  std::vector<Token> next = tokens_from(0, 20);
  next.insert(next.end(), {1020, 1021});  // two of the answer's three tokens are in the cache, the last never was
  next.push_back(5);
  batcher.admit(work_of(2, next, 3));
  EXPECT_EQ(cached_of(batcher.plan(), 2), 22);
}

TEST(Batcher, TheSamePromptAgainComputesOneToken) {
  Batcher batcher(small_limits());
  batcher.admit(work_of(1, tokens_from(0, 50), 5));
  run_all(batcher);
  batcher.admit(work_of(2, tokens_from(0, 50), 5));
  const Plan plan = batcher.plan();
  EXPECT_EQ(cached_of(plan, 2), 49);
  ASSERT_EQ(plan.pieces.size(), 1u);
  EXPECT_EQ(plan.pieces[0].tokens.size(), 1u);
}

TEST(Batcher, WhatCanNeverFitIsRefusedAtOnceWithFigures) {
  Batcher batcher(small_limits());
  const Admission admission = batcher.admit(work_of(1, tokens_from(0, 200), 5));
  EXPECT_EQ(admission.verdict, Admission::Verdict::kNeverFits);
  EXPECT_NE(admission.reason.find("200 tokens"), std::string::npos) << admission.reason;
  EXPECT_EQ(batcher.admit(work_of(2, tokens_from(0, 199), 5)).verdict, Admission::Verdict::kTaken);
  EXPECT_EQ(batcher.admit(work_of(3, {}, 5)).verdict, Admission::Verdict::kInvalid);
  EXPECT_EQ(batcher.admit(work_of(4, {1}, 0)).verdict, Admission::Verdict::kInvalid);
}

TEST(Batcher, ThePlacesInTheQueueAreCounted) {
  Batcher batcher(small_limits());
  for (uint64_t key = 1; key <= 12; ++key)
    EXPECT_EQ(batcher.admit(work_of(key, {1, 2}, 5)).verdict, Admission::Verdict::kTaken) << key;
  EXPECT_EQ(batcher.admit(work_of(13, {1, 2}, 5)).verdict, Admission::Verdict::kFull);
  EXPECT_TRUE(batcher.cancel(5));
  EXPECT_EQ(batcher.admit(work_of(14, {1, 2}, 5)).verdict, Admission::Verdict::kTaken);
}

TEST(Batcher, OneThatIsNotReadyHoldsItsPlaceAndStartsLater) {
  Batcher batcher(small_limits());
  EXPECT_EQ(batcher.admit(work_of(1, tokens_from(0, 10), 5), false).verdict, Admission::Verdict::kTaken);
  EXPECT_EQ(batcher.admit(work_of(2, tokens_from(500, 10), 5), false).verdict, Admission::Verdict::kTaken);
  batcher.admit(work_of(3, tokens_from(700, 10), 5));
  EXPECT_EQ(batcher.waiting(), 3);
  EXPECT_EQ(run_all(batcher), std::vector<uint64_t>{3});
  EXPECT_TRUE(batcher.idle()) << "the engine would turn round and round";
  EXPECT_TRUE(batcher.cancel(2));
  EXPECT_FALSE(batcher.cancel(2));
  batcher.ready(2);
  batcher.ready(1);
  EXPECT_EQ(batcher.waiting(), 1);
  EXPECT_EQ(run_all(batcher), std::vector<uint64_t>{1});
}

TEST(Batcher, ClientsTakeTurns) {
  BatchLimits limits = small_limits();
  limits.parallel = 1;
  limits.queue_limit = 100;
  Batcher batcher(limits);
  for (uint64_t key = 0; key < 10; ++key) batcher.admit(work_of(key, {1, 2}, 2, "greedy"));
  batcher.admit(work_of(100, {3, 4}, 2, "modest"));
  batcher.admit(work_of(101, {3, 4}, 2, "modest"));
  const std::vector<uint64_t> ended = run_all(batcher);
  ASSERT_EQ(ended.size(), 12u);
  EXPECT_EQ(std::vector<uint64_t>(ended.begin(), ended.begin() + 4), (std::vector<uint64_t>{0, 100, 1, 101}));
}

TEST(Batcher, ACancelledRequestGivesItsPlaceToTheNext) {
  BatchLimits limits = small_limits();
  limits.parallel = 1;
  Batcher batcher(limits);
  batcher.admit(work_of(1, tokens_from(0, 10), 100));
  batcher.admit(work_of(2, tokens_from(50, 10), 100));
  EXPECT_EQ(batcher.plan().pieces[0].key, 1u);
  EXPECT_TRUE(batcher.cancel(1));
  EXPECT_EQ(batcher.plan().pieces[0].key, 2u);
  EXPECT_FALSE(batcher.cancel(1));
}

TEST(Batcher, AFullCacheSendsTheYoungestBackAndNobodyIsLost) {
  BatchLimits limits = small_limits();
  limits.kv_tokens = limits.context_tokens;
  Batcher batcher(limits);
  for (uint64_t key = 1; key <= 3; ++key) batcher.admit(work_of(key, tokens_from(1000 * key, 30), 120));
  const std::vector<uint64_t> ended = run_all(batcher);
  EXPECT_EQ(std::set<uint64_t>(ended.begin(), ended.end()), (std::set<uint64_t>{1, 2, 3}));
  EXPECT_EQ(ended.front(), 1u);
  EXPECT_GT(batcher.preemptions(), 0u);
}

TEST(Batcher, ARefusedPlanLosesNothing) {
  Batcher batcher(small_limits());
  batcher.admit(work_of(1, tokens_from(0, 10), 5));
  batcher.admit(work_of(2, tokens_from(500, 10), 5));
  const Plan first = batcher.plan();
  EXPECT_EQ(batcher.refused(first), std::nullopt);  // 2 gives way
  const Plan second = batcher.plan();
  ASSERT_FALSE(second.pieces.empty());
  EXPECT_EQ(second.pieces[0].key, 1u);
  EXPECT_EQ(second.pieces[0].start, 0);
  for (const Piece& piece : second.pieces) batcher.produced(piece.key, 7);
  EXPECT_EQ(run_all(batcher).size(), 2u);
}

// Thousands of lives from a seed: after every step the cache agrees with the plans, and at the end everyone is served.
class Life {
 public:
  explicit Life(unsigned seed) : random_(seed) {
    limits_ = small_limits();
    limits_.context_tokens = 20 + pick(100);
    limits_.kv_tokens = limits_.context_tokens + pick(200);
    limits_.parallel = 1 + pick(5);
    limits_.sequences = limits_.parallel + pick(4);
    limits_.chunk_tokens = 4 + pick(40);
    limits_.exact_rows = 2 + pick(40);
    limits_.exact_context = pick(100);
    limits_.share_prefixes = pick(5) > 0;
    batcher_.emplace(limits_);
    cache_.emplace(limits_);
  }

  void run() {
    for (int step = 0; step < 120; ++step) {
      if (pick(3) == 0) arrive();
      if (pick(25) == 0) leave();
      if (pick(10) == 0) become_ready();
      turn();
      if (testing::Test::HasFatalFailure()) return;
    }
    become_ready();
    for (int step = 0; step < 20000 && !batcher_->idle(); ++step) {
      turn();
      if (testing::Test::HasFatalFailure()) return;
    }
    ASSERT_TRUE(batcher_->idle()) << "a request never ends";
    ASSERT_TRUE(tokens_.empty()) << tokens_.size() << " requests were lost";
  }

  uint64_t preemptions() const { return batcher_->preemptions(); }
  int shares = 0;

 private:
  int32_t pick(int32_t below) { return static_cast<int32_t>(random_() % below); }

  void arrive() {
    Work work;
    work.key = ++last_key_;
    work.client = std::string(1, static_cast<char>('a' + pick(3)));
    work.tokens = tokens_from(0, pick(40));  // the shared system prompt
    for (int32_t i = pick(60) + 1; i > 0; --i) work.tokens.push_back(pick(3));
    work.prompt_tokens = static_cast<int32_t>(work.tokens.size());
    work.embedding = pick(8) == 0;
    work.every_output = !work.embedding && pick(8) == 0;
    work.max_output = 1 + pick(60);
    const std::vector<Token> tokens = work.tokens;
    const bool ready = pick(6) > 0;
    const Admission admission = batcher_->admit(work, ready);
    if (!ready) unready_.push_back(last_key_);
    const int32_t needed = work.prompt_tokens + (work.embedding ? 0 : 1);
    ASSERT_EQ(admission.verdict == Admission::Verdict::kNeverFits, needed > limits_.context_tokens);
    if (admission.verdict == Admission::Verdict::kTaken) tokens_[last_key_] = {tokens, work.embedding};
  }

  void become_ready() {  // also those that were refused or have left: nothing happens
    for (uint64_t key : unready_) batcher_->ready(key);
    unready_.clear();
  }

  void leave() {
    if (tokens_.empty()) return;
    auto at = std::next(tokens_.begin(), pick(static_cast<int32_t>(tokens_.size())));
    ASSERT_TRUE(batcher_->cancel(at->first));
    tokens_.erase(at);
  }

  void turn() {
    const Plan plan = batcher_->plan();
    ASSERT_EQ(plan.pieces.empty(), batcher_->running() == 0) << "nothing advances though somebody runs";
    ASSERT_LE(batcher_->running(), limits_.parallel);
    for (const CacheChange& change : plan.changes) shares += change.kind == CacheChange::Kind::kShare;
    if (pick(40) == 0 && !plan.pieces.empty()) {  // the cache says no: only the changes were made
      Plan changes = plan;
      changes.pieces.clear();
      cache_->apply(changes);
      if (auto stuck = batcher_->refused(plan)) {
        batcher_->finish(*stuck);
        tokens_.erase(*stuck);
      }
      return;
    }
    cache_->apply(plan);
    ASSERT_EQ(cache_->used(), batcher_->kv_used());
    int32_t prompt_tokens = 0, outputs = 0;
    for (const Piece& piece : plan.pieces) {
      outputs += piece.every_output ? static_cast<int32_t>(piece.tokens.size()) : 1;
      if (piece.tokens.size() > 1) prompt_tokens += static_cast<int32_t>(piece.tokens.size());
      check(piece, plan);
    }
    ASSERT_LE(prompt_tokens, limits_.chunk_tokens + limits_.embed_tokens);
    if (!plan.embedding) {
      ASSERT_LE(outputs, limits_.parallel + limits_.embed_tokens);
    }
  }

  void check(const Piece& piece, const Plan& plan) {
    auto& [tokens, embedding] = tokens_.at(piece.key);
    ASSERT_EQ(embedding, plan.embedding);
    const size_t end = piece.start + piece.tokens.size();
    ASSERT_EQ(cache_->tokens(piece.sequence), std::vector<Token>(tokens.begin(), tokens.begin() + end));
    if (!piece.wants_output) return;
    if (embedding) {
      batcher_->finish(piece.key);
      tokens_.erase(piece.key);
      return;
    }
    const Token token = pick(3);
    tokens.push_back(token);
    if (batcher_->produced(piece.key, token) || pick(30) == 0) {
      batcher_->finish(piece.key);
      tokens_.erase(piece.key);
    }
  }

  std::mt19937 random_;
  BatchLimits limits_;
  std::optional<Batcher> batcher_;
  std::optional<FakeCache> cache_;
  std::map<uint64_t, std::pair<std::vector<Token>, bool>> tokens_;
  std::vector<uint64_t> unready_;
  uint64_t last_key_ = 0;
};

TEST(Batcher, ThousandsOfRandomLives) {
  const unsigned base = std::random_device{}();
  std::printf("seed %u\n", base);
  uint64_t preemptions = 0;
  int shares = 0;
  for (unsigned life = 0; life < 800; ++life) {
    Life one(base + life);
    one.run();
    preemptions += one.preemptions();
    shares += one.shares;
    ASSERT_FALSE(HasFatalFailure()) << "seed " << base + life;
  }
  EXPECT_GT(preemptions, 100u) << "the rare path was not reached";
  EXPECT_GT(shares, 100) << "the rare path was not reached";
}

}  // namespace
}  // namespace serving
