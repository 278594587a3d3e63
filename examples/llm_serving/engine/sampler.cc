#include "examples/llm_serving/engine/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <llama.h>

#include "examples/llm_serving/engine/llama_log.h"

namespace serving {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr float kBanned = -100;  // a bias of this and below forbids, as OpenAI's does

uint64_t mixed(uint64_t x) {  // splitmix64's finaliser
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

uint64_t stream_of(uint64_t seed, int32_t position) { return mixed(mixed(seed) ^ static_cast<uint64_t>(position)); }

uint64_t bits_of(uint64_t stream, Token token) { return mixed(stream ^ static_cast<uint64_t>(token)); }

double noise(uint64_t bits) {
  const double below = (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;  // 1 - u: small ones are exact
  return -std::log(-std::log1p(-below));
}

// An upper bound of noise(bits) that costs no logarithm: -log(u') with u' = bits / 2^64, as -log1p(-x) >= x.
float noise_at_most(uint64_t bits) { return static_cast<float>(std::countl_zero(bits | 2048) + 1) * 0.6931472f; }

}  // namespace

double gumbel_noise(uint64_t seed, int32_t position, Token token) {
  return noise(bits_of(stream_of(seed, position), token));
}

void Sampler::Free::operator()(llama_sampler* grammar) const { llama_sampler_free(grammar); }

Result<Sampler> Sampler::make(Sampling sampling, const Tokenizer& tokenizer, std::span<const Token> prompt) {
  for (const LogitBias& bias : sampling.logit_bias) {
    if (!tokenizer.holds(bias.token))
      return Problem{"logit_bias names token " + std::to_string(bias.token) + ", and the vocabulary has " +
                         std::to_string(tokenizer.size()),
                     ""};
  }
  Sampler sampler(std::move(sampling), tokenizer);
  if (sampler.sampling_.repetition_penalty != 1) {
    for (Token token : prompt) ++sampler.with_prompt_[token];
  }
  const Result<bool> grammar = sampler.make_grammar();
  if (!grammar) return grammar.problem();
  return sampler;
}

Result<bool> Sampler::make_grammar() {
  if (sampling_.grammar.empty()) return false;
  const LlamaErrors errors;
  try {
    if (sampling_.grammar_triggers.empty() && sampling_.grammar_trigger_tokens.empty()) {
      grammar_.reset(llama_sampler_init_grammar(tokenizer_->vocab(), sampling_.grammar.c_str(), "root"));
    } else {
      std::vector<const char*> patterns;
      for (const std::string& pattern : sampling_.grammar_triggers) patterns.push_back(pattern.c_str());
      grammar_.reset(llama_sampler_init_grammar_lazy_patterns(
          tokenizer_->vocab(), sampling_.grammar.c_str(), "root", patterns.data(), patterns.size(),
          sampling_.grammar_trigger_tokens.data(), sampling_.grammar_trigger_tokens.size()));
    }
    if (!grammar_) return Problem{"the grammar cannot be read: " + errors.cause(), ""};
    for (Token token : sampling_.grammar_prefix) llama_sampler_accept(grammar_.get(), token);
  } catch (const std::exception& error) {
    return Problem{std::string("the grammar cannot be used: ") + error.what(), ""};
  }
  return true;
}

Sampled Sampler::sample(std::span<float> logits, int32_t position) {
  Sampled sampled;
  const bool told = sampling_.logprobs >= 0;
  std::vector<float> own;
  if (told) own.assign(logits.begin(), logits.end());
  apply_bias_and_penalties(logits);
  if (grammar_ && truncates()) apply_grammar(logits);
  sampled.token = choose(logits, position);
  // Where nothing is cut off, the best of all is the best of those that the grammar allows, if it allows it.
  if (grammar_ && sampled.token >= 0 && !grammar_allows(sampled.token)) {
    apply_grammar(logits);
    sampled.token = choose(logits, position);
  }
  return told && sampled.token >= 0 ? likelihood(own, sampled.token) : sampled;
}

void Sampler::accept(Token token) {
  ++output_[token];
  if (sampling_.repetition_penalty != 1) ++with_prompt_[token];
  // The end is no part of a grammar's text, and libllama ends the process where it comes too early.
  if (grammar_ && !tokenizer_->ends_answer(token)) llama_sampler_accept(grammar_.get(), token);
}

Sampled Sampler::likelihood(std::span<const float> logits, Token token) const {
  const float most = logits[greatest(logits)];
  double sum = 0;
  for (float logit : logits) sum += std::exp(logit - most);
  const float norm = most + static_cast<float>(std::log(sum));
  Sampled sampled{.token = token, .logprob = logits[token] - norm, .top = {}};
  std::vector<Token> order(logits.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<Token>(i);
  const auto count = std::min<size_t>(sampling_.logprobs, order.size());
  std::partial_sort(order.begin(), order.begin() + count, order.end(),
                    [&](Token a, Token b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  for (size_t i = 0; i < count; ++i) sampled.top.push_back({order[i], logits[order[i]] - norm});
  return sampled;
}

void Sampler::apply_bias_and_penalties(std::span<float> logits) const {
  for (const LogitBias& bias : sampling_.logit_bias) {
    if (bias.bias <= kBanned) {
      logits[bias.token] = kNever;
    } else {
      logits[bias.token] += bias.bias;
    }
  }
  for (const auto& [token, count] : with_prompt_) {
    float& logit = logits[token];
    logit = logit > 0 ? logit / sampling_.repetition_penalty : logit * sampling_.repetition_penalty;
  }
  if (sampling_.presence_penalty != 0 || sampling_.frequency_penalty != 0) {
    for (const auto& [token, count] : output_)
      logits[token] -= sampling_.presence_penalty + sampling_.frequency_penalty * static_cast<float>(count);
  }
  if (sampling_.ignore_eos) {
    for (Token token : tokenizer_->end_tokens()) logits[token] = kNever;
  }
}

bool Sampler::truncates() const {
  return sampling_.temperature > 0 &&
         (sampling_.top_k > 0 || sampling_.top_p < 1 || sampling_.min_p > 0 || sampling_.typical_p < 1);
}

Token Sampler::choose(std::span<const float> logits, int32_t position) {
  if (sampling_.temperature <= 0) {
    const size_t most = greatest(logits);
    return logits[most] > kNever ? static_cast<Token>(most) : -1;
  }
  if (!truncates()) return best(logits, position);
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > kNever) candidates.push_back({static_cast<Token>(i), logits[i] / sampling_.temperature});
  }
  truncate(candidates);
  const uint64_t stream = stream_of(sampling_.seed, position);
  Token token = -1;
  double most = 0;
  for (const Candidate& candidate : candidates) {
    const double score = candidate.score + noise(bits_of(stream, candidate.token));
    if (token < 0 || score > most || (score == most && candidate.token < token)) {
      token = candidate.token;
      most = score;
    }
  }
  return token;
}

// Over the whole vocabulary: nearly all candidates are ruled out without a logarithm.
Token Sampler::best(std::span<const float> logits, int32_t position) const {
  const uint64_t stream = stream_of(sampling_.seed, position);
  auto token = static_cast<Token>(greatest(logits));
  if (!(logits[token] > kNever)) return -1;
  double most = logits[token] / sampling_.temperature + noise(bits_of(stream, token));
  for (size_t i = 0; i < logits.size(); ++i) {
    const uint64_t bits = bits_of(stream, static_cast<Token>(i));
    const float logit = logits[i] / sampling_.temperature;
    if (logit + noise_at_most(bits) < most) continue;
    const double score = logit + noise(bits);
    if (score > most) {
      most = score;
      token = static_cast<Token>(i);
    }
  }
  return token;
}

void Sampler::truncate(std::vector<Candidate>& candidates) const {
  if (sampling_.top_k > 0) keep_top_k(candidates, static_cast<size_t>(sampling_.top_k));
  if (sampling_.typical_p < 1) keep_typical(candidates, sampling_.typical_p);
  if (sampling_.top_p < 1) keep_top_p(candidates, sampling_.top_p);
  if (sampling_.min_p > 0) keep_min_p(candidates, sampling_.min_p);
}

bool Sampler::grammar_allows(Token token) const {
  llama_token_data one{token, 1, 0};
  llama_token_data_array array{&one, 1, -1, false};
  llama_sampler_apply(grammar_.get(), &array);
  return one.logit > kNever;
}

void Sampler::apply_grammar(std::span<float> logits) const {
  std::vector<llama_token_data> all;
  all.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > kNever) all.push_back({static_cast<Token>(i), logits[i], 0});
  }
  llama_token_data_array array{all.data(), all.size(), -1, false};
  llama_sampler_apply(grammar_.get(), &array);
  for (const llama_token_data& one : all) logits[one.id] = one.logit;
}

}  // namespace serving
