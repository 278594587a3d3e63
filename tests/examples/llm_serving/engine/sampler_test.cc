// If these fail, a request's parameters do not mean what OpenAI's and vLLM's documents say, or a replay draws other
// tokens.
#include "examples/llm_serving/engine/sampler.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <set>

#include "tests/examples/llm_serving/engine/engine_harness.h"

namespace serving {
namespace {

constexpr float kLow = -30;

// Logits over the test vocabulary: kLow but for the named tokens.
std::vector<float> logits_with(const std::map<Token, float>& named) {
  std::vector<float> logits(test_tokenizer().size(), kLow);
  for (const auto& [token, logit] : named) logits[token] = logit;
  return logits;
}

Sampler sampler_of(Sampling sampling, const std::vector<Token>& prompt = {}) {
  Result<Sampler> sampler = Sampler::make(std::move(sampling), test_tokenizer(), prompt);
  EXPECT_TRUE(sampler.ok()) << sampler.problem().what;
  return std::move(*sampler);
}

std::map<Token, int> draws(const Sampling& sampling, const std::map<Token, float>& named, int count) {
  Sampler sampler = sampler_of(sampling);
  std::map<Token, int> seen;
  for (int position = 0; position < count; ++position) {
    std::vector<float> logits = logits_with(named);
    ++seen[sampler.sample(logits, position).token];
  }
  return seen;
}

Sampling at_temperature(float temperature) {
  Sampling sampling;
  sampling.temperature = temperature;
  sampling.seed = 7;
  return sampling;
}

TEST(Sampler, TheNoiseDependsOnSeedPlaceAndTokenAlone) {
  EXPECT_EQ(gumbel_noise(1, 2, 3), gumbel_noise(1, 2, 3));
  std::set<double> all = {gumbel_noise(1, 2, 3), gumbel_noise(2, 2, 3), gumbel_noise(1, 3, 3), gumbel_noise(1, 2, 4)};
  EXPECT_EQ(all.size(), 4u);
  double sum = 0, square = 0;
  constexpr int kCount = 200'000;
  for (int i = 0; i < kCount; ++i) {
    const double value = gumbel_noise(42, i / 1000, i % 1000);
    sum += value;
    square += value * value;
  }
  const double mean = sum / kCount;
  EXPECT_NEAR(mean, 0.5772, 0.02);                           // Euler's constant
  EXPECT_NEAR(square / kCount - mean * mean, 1.6449, 0.05);  // pi^2 / 6
}

TEST(Sampler, TemperatureZeroTakesTheBest) {
  Sampler sampler = sampler_of(at_temperature(0));
  std::vector<float> logits = logits_with({{10, 1}, {20, 2}, {30, 2}});
  EXPECT_EQ(sampler.sample(logits, 0).token, 20) << "of equal ones the first";
}

TEST(Sampler, TokensComeAsOftenAsTheirProbability) {
  const auto seen = draws(at_temperature(1), {{10, 0}, {20, std::log(3.0f)}}, 2000);
  EXPECT_NEAR(seen.at(20), 1500, 80);
  EXPECT_NEAR(seen.at(10), 500, 80);
  const auto cold = draws(at_temperature(0.5), {{10, 0}, {20, std::log(3.0f)}}, 2000);
  EXPECT_NEAR(cold.at(20), 1800, 80);
}

TEST(Sampler, CuttingNothingOffDrawsTheSameAsNoCut) {
  Sampling plain = at_temperature(1), cut = plain;
  cut.min_p = 1e-30f;
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 4);
  for (int position = 0; position < 50; ++position) {
    std::vector<float> logits(test_tokenizer().size());
    for (float& logit : logits) logit = normal(random);
    std::vector<float> same = logits;
    EXPECT_EQ(sampler_of(plain).sample(logits, position).token, sampler_of(cut).sample(same, position).token);
  }
}

TEST(Sampler, EachCutKeepsWhatItsNameSays) {
  const std::map<Token, float> four = {
      {10, std::log(0.4f)}, {20, std::log(0.3f)}, {30, std::log(0.2f)}, {40, std::log(0.1f)}};
  const auto kept = [&](auto set) {
    Sampling sampling = at_temperature(1);
    set(sampling);
    std::set<Token> tokens;
    for (const auto& [token, count] : draws(sampling, four, 200)) tokens.insert(token);
    return tokens;
  };
  EXPECT_EQ(kept([](Sampling& s) { s.top_k = 2; }), (std::set<Token>{10, 20}));
  EXPECT_EQ(kept([](Sampling& s) { s.top_k = 1; }), (std::set<Token>{10}));
  EXPECT_EQ(kept([](Sampling& s) { s.top_p = 0.65f; }), (std::set<Token>{10, 20}));
  EXPECT_EQ(kept([](Sampling& s) { s.top_p = 0.01f; }), (std::set<Token>{10}));
  EXPECT_EQ(kept([](Sampling& s) { s.min_p = 0.4f; }), (std::set<Token>{10, 20, 30}));
  // Entropy 1.28: 0.3 (1.20) and 0.2 (1.61) are the most typical, then 0.4 (0.92).
  EXPECT_EQ(kept([](Sampling& s) { s.typical_p = 0.25f; }), (std::set<Token>{20}));
  EXPECT_EQ(kept([](Sampling& s) { s.typical_p = 0.45f; }), (std::set<Token>{20, 30}));
}

TEST(Sampler, PenaltiesCountWhatTheirDocumentsSay) {
  Sampling sampling = at_temperature(0);
  sampling.presence_penalty = 1.5f;
  Sampler presence = sampler_of(sampling, {10});
  std::vector<float> logits = logits_with({{10, 2}, {20, 1}});
  EXPECT_EQ(presence.sample(logits, 0).token, 10) << "a token of the prompt is not penalised";
  presence.accept(10);
  logits = logits_with({{10, 2}, {20, 1}});
  EXPECT_EQ(presence.sample(logits, 1).token, 20);

  sampling = at_temperature(0);
  sampling.frequency_penalty = 0.4f;
  Sampler frequency = sampler_of(sampling);
  for (int times = 0; times < 3; ++times) {
    logits = logits_with({{10, 2}, {20, 1}});
    EXPECT_EQ(frequency.sample(logits, times).token, 10) << times;
    frequency.accept(10);
  }
  logits = logits_with({{10, 2}, {20, 1}});
  EXPECT_EQ(frequency.sample(logits, 3).token, 20);

  sampling = at_temperature(0);
  sampling.repetition_penalty = 3;
  Sampler repetition = sampler_of(sampling, {10, 30});
  logits = logits_with({{10, 2}, {20, 1}, {30, -1}});
  EXPECT_EQ(repetition.sample(logits, 0).token, 20) << "tokens of the prompt count";
  EXPECT_FLOAT_EQ(logits[10], 2.0f / 3);
  EXPECT_FLOAT_EQ(logits[30], -3);
}

TEST(Sampler, ABiasMovesAndForbids) {
  Sampling sampling = at_temperature(0);
  sampling.logit_bias = {{10, -100}, {30, 5}};
  Sampler sampler = sampler_of(sampling);
  std::vector<float> logits = logits_with({{10, 500}, {20, 1}, {30, -3}});
  EXPECT_EQ(sampler.sample(logits, 0).token, 30);
  sampling.logit_bias = {{49152, 1}};
  const Result<Sampler> wrong = Sampler::make(sampling, test_tokenizer(), {});
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.problem().what.find("49152"), std::string::npos);
}

TEST(Sampler, LogprobsAreTheModelsOwn) {
  Sampling sampling = at_temperature(0.1f);
  sampling.logprobs = 2;
  sampling.logit_bias = {{20, 100}};
  Sampler sampler = sampler_of(sampling);
  std::vector<float> logits = logits_with({{10, std::log(3.0f)}, {20, 0}});
  const Sampled sampled = sampler.sample(logits, 0);
  EXPECT_EQ(sampled.token, 20);
  EXPECT_NEAR(sampled.logprob, std::log(0.25f), 1e-4);
  ASSERT_EQ(sampled.top.size(), 2u);
  EXPECT_EQ(sampled.top[0].token, 10);
  EXPECT_NEAR(sampled.top[0].logprob, std::log(0.75f), 1e-4);
}

TEST(Sampler, TheEndCanBeIgnored) {
  const Token end = test_tokenizer().end_tokens().at(0);
  Sampling sampling = at_temperature(0);
  sampling.ignore_eos = true;
  Sampler sampler = sampler_of(sampling);
  std::vector<float> logits = logits_with({{end, 10}, {20, 1}});
  EXPECT_EQ(sampler.sample(logits, 0).token, 20);
}

TEST(Sampler, AGrammarAllowsOnlyItsText) {
  const Token yes = test_tokenizer().single("yes"), no = test_tokenizer().single("no"),
              maybe = test_tokenizer().single("maybe");
  const Token end = test_tokenizer().single("<|im_end|>");
  for (float top_p : {1.0f, 0.9f}) {
    for (float temperature : {0.0f, 1.0f}) {
      Sampling sampling = at_temperature(temperature);
      sampling.top_p = top_p;
      sampling.grammar = "root ::= \"yes\" | \"no\"";
      Sampler sampler = sampler_of(sampling);
      std::vector<float> logits = logits_with({{maybe, 30}, {end, 29}, {yes, 10}, {no, -10}});
      EXPECT_EQ(sampler.sample(logits, 0).token, yes);
      sampler.accept(yes);
      logits = logits_with({{maybe, 30}, {yes, 29}});
      EXPECT_TRUE(test_tokenizer().ends_answer(sampler.sample(logits, 1).token)) << "after the whole text only the end";
    }
  }
  Sampling wrong = at_temperature(0);
  wrong.grammar = "root ::= (";
  EXPECT_FALSE(Sampler::make(wrong, test_tokenizer(), {}).ok());
}

TEST(Sampler, AGrammarThatWaitsBindsFromItsTriggerOn) {
  const Token call = test_tokenizer().single("call"), one = test_tokenizer().single("1"),
              other = test_tokenizer().single("x");
  ASSERT_GE(call, 0);
  Sampling sampling = at_temperature(0);
  sampling.grammar = "root ::= \"call\" [0-9]";
  sampling.grammar_triggers = {"call"};
  Sampler sampler = sampler_of(sampling);
  std::vector<float> logits = logits_with({{other, 5}, {one, 1}});
  EXPECT_EQ(sampler.sample(logits, 0).token, other);
  sampler.accept(other);
  sampler.accept(call);
  logits = logits_with({{other, 5}, {one, 1}});
  EXPECT_EQ(sampler.sample(logits, 2).token, one);
}

}  // namespace
}  // namespace serving
