// If these fail, top_k, top_p, min_p and typical do not cut where their documents say.
#include "examples/llm_serving/batching/truncation.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <set>

namespace serving {
namespace {

std::vector<Candidate> of_probabilities(const std::vector<float>& probabilities) {
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < probabilities.size(); ++i)
    candidates.push_back({static_cast<Token>(i), std::log(probabilities[i]) + 3});
  return candidates;
}

std::set<Token> tokens_of(const std::vector<Candidate>& candidates) {
  std::set<Token> tokens;
  for (const Candidate& candidate : candidates) tokens.insert(candidate.token);
  return tokens;
}

const std::vector<float> kFour = {0.1f, 0.4f, 0.3f, 0.2f};

template <class Keep>
std::set<Token> kept(Keep keep) {
  std::vector<Candidate> candidates = of_probabilities(kFour);
  keep(candidates);
  return tokens_of(candidates);
}

TEST(Truncation, TheGreatestIsTheFirstOfTheBest) {
  std::minstd_rand random(7);
  for (size_t size : {1, 2, 15, 16, 17, 1023, 1024, 1025, 5000}) {
    for (unsigned kinds : {1u, 3u, 100'000u}) {  // few: many are equal
      std::vector<float> values(size);
      for (float& value : values) value = static_cast<float>(random() % kinds) - 50'000;
      EXPECT_EQ(greatest(values), static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin()));
    }
  }
  constexpr float kNever = -std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(greatest(std::vector<float>(2000, kNever)), 0u);
  EXPECT_EQ(greatest(std::vector<float>(2000, kNan)), 0u);
  EXPECT_EQ(greatest(std::vector<float>{kNan, kNever, -3, kNan, -2, -2}), 4u);
}

TEST(Truncation, TopKKeepsTheBest) {
  EXPECT_EQ(kept([](auto& c) { keep_top_k(c, 2); }), (std::set<Token>{1, 2}));
  EXPECT_EQ(kept([](auto& c) { keep_top_k(c, 9); }).size(), 4u);
}

TEST(Truncation, TopPKeepsTheOneThatCompletesIt) {
  EXPECT_EQ(kept([](auto& c) { keep_top_p(c, 0.65f); }), (std::set<Token>{1, 2}));
  EXPECT_EQ(kept([](auto& c) { keep_top_p(c, 0.75f); }), (std::set<Token>{1, 2, 3}));
  EXPECT_EQ(kept([](auto& c) { keep_top_p(c, 0.0f); }), (std::set<Token>{1})) << "never none";
  EXPECT_EQ(kept([](auto& c) { keep_top_p(c, 0.9999f); }).size(), 4u);
}

TEST(Truncation, TopPIsTheSameHoweverManyThereAre) {
  std::vector<Candidate> many;
  for (int i = 0; i < 50'000; ++i) many.push_back({i, static_cast<float>(-0.002 * ((i * 7919) % 50'000))});
  keep_top_p(many, 0.9f);
  // A geometric row with the ratio e^-0.002: 90 % lie in the first ln(10) / 0.002 of it.
  EXPECT_NEAR(static_cast<double>(many.size()), std::log(10.0) / 0.002, 2);
}

TEST(Truncation, MinPIsAShareOfTheBest) {
  EXPECT_EQ(kept([](auto& c) { keep_min_p(c, 0.4f); }), (std::set<Token>{1, 2, 3}));
  EXPECT_EQ(kept([](auto& c) { keep_min_p(c, 1.0f); }), (std::set<Token>{1}));
}

TEST(Truncation, TypicalLeavesOutWhatIsTooCertain) {
  // Entropy 1.28: 0.3 (1.20) and 0.2 (1.61) surprise most as expected, then 0.4 (0.92), then 0.1 (2.30).
  EXPECT_EQ(kept([](auto& c) { keep_typical(c, 0.25f); }), (std::set<Token>{2}));
  EXPECT_EQ(kept([](auto& c) { keep_typical(c, 0.45f); }), (std::set<Token>{2, 3}));
  EXPECT_EQ(kept([](auto& c) { keep_typical(c, 0.8f); }), (std::set<Token>{1, 2, 3}));
}

TEST(Truncation, EqualOnesAreCutTheSameWayEverywhere) {
  std::vector<Candidate> candidates = {{3, 1}, {1, 1}, {2, 1}};
  keep_top_k(candidates, 2);
  EXPECT_EQ(tokens_of(candidates), (std::set<Token>{1, 2}));
}

TEST(Truncation, NothingLeftIsNoCrash) {
  std::vector<Candidate> none;
  keep_top_k(none, 3);
  keep_typical(none, 0.5f);
  keep_top_p(none, 0.5f);
  keep_min_p(none, 0.5f);
  EXPECT_TRUE(none.empty());
}

}  // namespace
}  // namespace serving
