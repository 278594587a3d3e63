// How the next token is chosen from the logits, for one request.
//
// In this order: bias, penalties, grammar, temperature, top_k, typical, top_p, min_p, draw. The draw is Gumbel-max:
// the token with the greatest logit / temperature + gumbel_noise(seed, position, token) among those that are left. So
// the random numbers depend on seed and position alone: the same request goes on alike on another replica, and a token
// that another batch shape moves a little is still drawn, unless two candidates were all but equal.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "examples/llm_serving/batching/truncation.h"
#include "examples/llm_serving/engine/result.h"
#include "examples/llm_serving/engine/tokenizer.h"
#include "examples/llm_serving/protocol.h"

struct llama_sampler;

namespace serving {

// Standard Gumbel noise: -log(-log(u)) of a u that the three numbers hash to.
double gumbel_noise(uint64_t seed, int32_t position, Token token);

struct Sampled {
  Token token = -1;   // -1: the grammar allows none
  float logprob = 0;  // of the model's own distribution, before bias, penalties and temperature
  std::vector<TokenLogprob> top;
};

class Sampler {
 public:
  // `prompt` is what repetition_penalty counts besides the output. The tokenizer outlives this. A problem: a grammar
  // that cannot be read (see check_grammar), a token of logit_bias that is none.
  static Result<Sampler> make(Sampling sampling, const Tokenizer& tokenizer, std::span<const Token> prompt);

  // Overwrites the logits. `position`: of the token in the output.
  Sampled sample(std::span<float> logits, int32_t position);
  // How likely `token` is by the model's own distribution, and the alternatives that are told (Sampling::logprobs).
  Sampled likelihood(std::span<const float> logits, Token token) const;
  // The token became part of the output.
  void accept(Token token);

 private:
  struct Free {
    void operator()(llama_sampler* grammar) const;
  };
  Sampler(Sampling sampling, const Tokenizer& tokenizer) : sampling_(std::move(sampling)), tokenizer_(&tokenizer) {}

  Result<bool> make_grammar();
  void apply_bias_and_penalties(std::span<float> logits) const;
  Token choose(std::span<const float> logits, int32_t position);
  Token best(std::span<const float> logits, int32_t position) const;
  void truncate(std::vector<Candidate>& candidates) const;
  bool truncates() const;
  bool grammar_allows(Token token) const;
  void apply_grammar(std::span<float> logits) const;

  Sampling sampling_;
  const Tokenizer* tokenizer_;
  std::unique_ptr<llama_sampler, Free> grammar_;
  std::unordered_map<Token, int32_t> output_;       // how often
  std::unordered_map<Token, int32_t> with_prompt_;  // kept only where repetition_penalty needs it
};

}  // namespace serving
