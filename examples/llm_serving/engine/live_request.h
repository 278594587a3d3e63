// One request's own state while it is answered: from logits to events. After a replay it stands exactly where the
// engine that died stood: sampler, grammar, and the text that is held back.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "examples/llm_serving/batching/stop_matcher.h"
#include "examples/llm_serving/engine/result.h"
#include "examples/llm_serving/engine/sampler.h"
#include "examples/llm_serving/engine/tokenizer.h"
#include "examples/llm_serving/protocol.h"

namespace serving {

class LiveRequest {
 public:
  // The tokenizer outlives this. A problem: what in the request cannot be answered, for its client.
  static Result<LiveRequest> make(Request request, const Tokenizer& tokenizer);

  // The next token, from the logits (which it overwrites); finish is kStop at the answer's end, else kNone.
  Event next(std::span<float> logits);
  // The text that was still held back: for an end that no token brought.
  std::string rest() { return matcher_.finish(); }

  // The logits of the prompt's token at `position`, by which the next one of the prompt is judged. Told with the first output.
  void note_prompt(int32_t position, std::span<const float> logits);

  // Hidden states of the prompt's next tokens, one after another (`start`: the first one's place; at 0 it begins
  // anew), and at its end what they come to: their mean, of length 1.
  void add_hidden(int32_t start, std::span<const float> states, size_t width);
  Event embedding() const;

 private:
  LiveRequest(Request request, const Tokenizer& tokenizer, Sampler sampler);
  std::string piece(Token token) const;
  Event failed(Event event, std::string why);
  Result<bool> replay();

  Request request_;
  const Tokenizer* tokenizer_;
  Sampler sampler_;
  StopMatcher matcher_;
  int32_t position_ = 0;  // of the next token
  std::vector<double> hidden_;
  std::vector<Likelihood> prompt_;
};

}  // namespace serving
