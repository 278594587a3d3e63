#include "examples/llm_serving/engine/live_request.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

namespace serving {
namespace {

std::string unknown_token(const Request& request, const Tokenizer& tokenizer) {
  for (const std::vector<Token>* tokens : {&request.prompt, &request.replayed}) {
    for (Token token : *tokens) {
      if (!tokenizer.holds(token))
        return "the vocabulary has no token " + std::to_string(token) + ": it ends at " +
               std::to_string(tokenizer.size() - 1);
    }
  }
  return "";
}

}  // namespace

LiveRequest::LiveRequest(Request request, const Tokenizer& tokenizer, Sampler sampler)
    : request_(std::move(request)), tokenizer_(&tokenizer), sampler_(std::move(sampler)), matcher_(request_.stop) {}

Result<LiveRequest> LiveRequest::make(Request request, const Tokenizer& tokenizer) {
  if (std::string reason = unknown_token(request, tokenizer); !reason.empty()) return Problem{std::move(reason), ""};
  Result<Sampler> sampler = Sampler::make(request.sampling, tokenizer, request.prompt);
  if (!sampler) return sampler.problem();
  LiveRequest live(std::move(request), tokenizer, std::move(*sampler));
  if (const Result<bool> replayed = live.replay(); !replayed) return replayed.problem();
  return live;
}

Result<bool> LiveRequest::replay() {
  try {
    for (Token token : request_.replayed) {
      sampler_.accept(token);
      matcher_.push(piece(token));  // its reader has this text already
    }
  } catch (const std::exception& error) {
    return Problem{std::string("the replayed tokens do not fit the grammar: ") + error.what(), ""};
  }
  if (matcher_.stopped()) return Problem{"the replayed tokens hold a stop string already", ""};
  position_ = static_cast<int32_t>(request_.replayed.size());
  return true;
}

std::string LiveRequest::piece(Token token) const {
  return tokenizer_->piece(token, std::ranges::find(request_.shown, token) != request_.shown.end());
}

Event LiveRequest::next(std::span<float> logits) {
  Sampled sampled = sampler_.sample(logits, position_);
  Event event;
  event.request = request_.id;
  event.position = position_;
  if (sampled.token < 0) return failed(std::move(event), "the grammar allows no token here");
  event.token = sampled.token;
  event.logprob = sampled.logprob;
  event.top = std::move(sampled.top);
  event.prompt = std::exchange(prompt_, {});
  ++position_;
  if (tokenizer_->ends_answer(sampled.token)) {
    event.finish = Finish::kStop;
    event.text = matcher_.finish();
    return event;
  }
  try {
    sampler_.accept(sampled.token);
  } catch (const std::exception&) {  // a grammar that waited: its trigger came in a token that goes on otherwise
    return failed(std::move(event), "the answer does not fit the grammar from its trigger on");
  }
  event.text = matcher_.push(piece(sampled.token));
  if (matcher_.stopped()) event.finish = Finish::kStop;
  return event;
}

Event LiveRequest::failed(Event event, std::string why) {
  event.finish = Finish::kError;
  event.error = std::move(why);
  event.text = matcher_.finish();
  return event;
}

// One that gave way to others is computed again: what was noted before stays.
void LiveRequest::note_prompt(int32_t position, std::span<const float> logits) {
  const auto next = static_cast<size_t>(position) + 1;
  if (position_ > 0 || next != prompt_.size() + 1 || next >= request_.prompt.size()) return;
  Sampled judged = sampler_.likelihood(logits, request_.prompt[next]);
  prompt_.push_back({judged.logprob, std::move(judged.top)});
}

void LiveRequest::add_hidden(int32_t start, std::span<const float> states, size_t width) {
  if (start == 0) hidden_.assign(width, 0);
  for (size_t i = 0; i < states.size(); ++i) hidden_[i % width] += states[i];
}

Event LiveRequest::embedding() const {
  double square = 0;
  for (double value : hidden_) square += value * value;
  const double length = square > 0 ? std::sqrt(square) : 1;
  Event event;
  event.request = request_.id;
  event.finish = Finish::kStop;
  for (double value : hidden_) event.embedding.push_back(static_cast<float>(value / length));
  return event;
}

}  // namespace serving
