#include "examples/llm_serving/gateway/production.h"

#include <algorithm>
#include <limits>

#include "examples/llm_serving/gateway/json_text.h"

namespace serving::gateway {
namespace {

Instant now() { return std::chrono::steady_clock::now(); }

double seconds(Instant::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

Production::Production(Exchange& exchange, Model& model, Answers answers, const Generation& generation,
                       std::chrono::seconds ping)
    : exchange_(exchange),
      model_(model),
      answers_(std::move(answers)),
      api_(answers_.api()),
      generation_(generation),
      ping_(ping),
      start_(exchange.received()) {}

Production::~Production() {
  for (const Part& part : parts_) {
    if (part.flight) model_.dispatcher.leave(*part.flight);
  }
  if (!recorded_) finish("abort");
}

void Production::add(Request request, std::unique_ptr<OutputReader> reader, std::string echo) {
  Part part;
  part.reader = std::move(reader);
  part.choice.has_details = generation_.sampling.logprobs >= 0;
  part.choice.text = std::move(echo);
  if (request.prompt_logprobs) part.prompt = request.prompt;
  part.choice.offset = first_offset(part);
  part.request = std::move(request);
  parts_.push_back(std::move(part));
}

// The tokens of a prompt that is told may write more than its text has: a mark of its beginning, a blank before its first word.
int64_t Production::first_offset(const Part& part) const {
  auto surplus = -static_cast<int64_t>(characters(part.choice.text));
  for (const Token token : part.prompt) surplus += static_cast<int64_t>(characters(model_.language->piece(token)));
  return -std::max<int64_t>(0, surplus);
}

void Production::submit_more() {
  const auto done = std::count_if(parts_.begin(), parts_.end(), [](const Part& part) { return part.done; });
  for (; submitted_ < std::min(parts_.size(), static_cast<size_t>(done) + kTogether); ++submitted_) {
    Part& part = parts_[submitted_];
    part.flight = model_.dispatcher.submit(std::move(part.request), exchange_.waker(), now());
  }
}

void Production::run() {
  Instant quiet_since = now();
  submit_more();
  while (!exchange_.gone()) {
    std::string out;
    if (advance(out)) quiet_since = now();
    for (size_t i = 0; i < submitted_; ++i) {
      const Flight& flight = *parts_[i].flight;
      if (flight.error() && flight.ended()) return fail(*flight.error());
    }
    if (generation_.stream && !out.empty()) {
      if (!exchange_.begun()) begin();
      if (!exchange_.send(out)) return;
      note_own_time();
    }
    if (done()) break;
    submit_more();
    exchange_.wait_until(quiet_since + ping_);
    if (generation_.stream && now() >= quiet_since + ping_) {
      if (!exchange_.begun()) begin();
      if (!exchange_.send(kPing)) return;
      quiet_since = now();
    }
  }
  if (exchange_.gone()) return;
  const bool tools = std::any_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.called_tools; });
  finish(tools ? "tool_calls" : parts_[0].choice.finish_reason == "length" ? "length" : "stop");
  if (generation_.stream) {
    std::string out;
    if (generation_.include_usage) out += sse(answers_.usage(usage_));
    out += kDone;
    if (exchange_.send(out)) exchange_.end_events();
    return;
  }
  std::vector<Choice> choices;
  for (Part& part : parts_) choices.push_back(std::move(part.choice));
  exchange_.respond(200, "application/json", answers_.whole(choices, usage_));
  note_own_time();
}

// The status line, and what stands before all output.
void Production::begin() {
  exchange_.begin_events();
  std::string out;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (api_ == Answers::Api::kChat)
      out += sse(answers_.first(static_cast<int32_t>(i)));
    else if (!parts_[i].choice.text.empty())
      out += sse(answers_.text(static_cast<int32_t>(i), parts_[i].choice.text, nullptr));
  }
  exchange_.send(out);
}

bool Production::advance(std::string& out) {
  bool any = false;
  for (size_t i = 0; i < submitted_; ++i) {
    if (const Instant since = parts_[i].flight->unread_since(); since != Instant{} && (!any || since < arrived_))
      arrived_ = since;
    while (const std::optional<Event> event = parts_[i].flight->next()) {
      any = true;
      consume(parts_[i], static_cast<int32_t>(i), *event, out);
    }
  }
  return any;
}

void Production::consume(Part& part, int32_t index, const Event& event, std::string& out) {
  const bool last = event.finish != Finish::kNone;
  const bool told = event.token >= 0 && generation_.max_tokens != 0;
  if (told) {
    if (usage_.completion_tokens++ == 0) first_token_ = now();
    ++part.tokens;
    if (event.position == 0 && index == 0) {
      usage_.cached_tokens = event.cached_tokens;
      queued_s_ = event.queued_s;
    }
  }
  std::vector<TokenDetail> details;
  if (event.position == 0) add_prompt_details(part, event, details);
  // The token that ends the text is no part of it.
  const bool end_token = event.finish == Finish::kStop && event.text.empty();
  if (part.choice.has_details && told && !end_token)
    details.push_back(detail_of(event.token, event.logprob, event.top));
  OutputReader::News news;
  if (part.reader)
    news = part.reader->read(event.text, last);
  else if (generation_.max_tokens != 0)
    news.text = event.text;
  tell(part, index, news, details, out);
  if (!last) return;
  part.done = true;
  const bool cut = event.finish == Finish::kLength || generation_.max_tokens == 0;
  part.choice.finish_reason = cut ? "length" : part.called_tools ? "tool_calls" : "stop";
  if (generation_.stream) out += sse(answers_.finish(index, part.choice.finish_reason));
}

void Production::tell(Part& part, int32_t index, const OutputReader::News& news,
                      const std::vector<TokenDetail>& details, std::string& out) {
  const bool stream = generation_.stream;
  part.called_tools |= !news.tool_calls.empty();
  if (stream) {
    if (!news.reasoning.empty()) out += sse(answers_.reasoning(index, news.reasoning));
    if (!news.text.empty() || !details.empty())
      out += sse(answers_.text(index, news.text, details.empty() ? nullptr : &details, part.choice.offset));
    for (const ToolCallDelta& delta : news.tool_calls) out += sse(answers_.tool_call(index, delta));
    for (const TokenDetail& detail : details)
      part.choice.offset += static_cast<int64_t>(characters(detail.chosen.token));
    return;
  }
  part.choice.text += news.text;
  part.choice.reasoning += news.reasoning;
  part.choice.details.insert(part.choice.details.end(), details.begin(), details.end());
  for (const ToolCallDelta& delta : news.tool_calls) {
    std::vector<ToolCall>& calls = part.choice.tool_calls;
    if (calls.size() <= static_cast<size_t>(delta.index)) calls.resize(static_cast<size_t>(delta.index) + 1);
    ToolCall& call = calls[static_cast<size_t>(delta.index)];
    if (!delta.piece.id.empty()) call.id = delta.piece.id;
    call.name += delta.piece.name;
    call.arguments += delta.piece.arguments;
  }
}

// The first token has none: nothing stands before it.
void Production::add_prompt_details(const Part& part, const Event& event, std::vector<TokenDetail>& details) const {
  for (size_t i = 0; i < part.prompt.size() && i <= event.prompt.size(); ++i) {
    const Likelihood* known = i == 0 ? nullptr : &event.prompt[i - 1];
    details.push_back(known == nullptr ? detail_of(part.prompt[i], std::numeric_limits<float>::quiet_NaN(), {})
                                       : detail_of(part.prompt[i], known->logprob, known->top));
  }
}

TokenDetail Production::detail_of(Token token, float logprob, const std::vector<TokenLogprob>& top) const {
  TokenDetail detail{.chosen = {model_.language->piece(token), logprob}, .top = {}};
  for (const TokenLogprob& one : top) detail.top.push_back({model_.language->piece(one.token), one.logprob});
  return detail;
}

bool Production::done() const {
  return std::all_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.done; });
}

void Production::finish(const char* reason) {
  recorded_ = true;
  const Instant end = now();
  int64_t longest = 0;
  for (const Part& part : parts_) longest = std::max(longest, part.tokens);
  model_.dispatcher.metrics().ended(
      {.finish_reason = reason,
       .prompt_tokens = usage_.prompt_tokens,
       .output_tokens = usage_.completion_tokens,
       .longest_output = longest,
       .max_tokens = generation_.max_tokens.value_or(0),
       .n = generation_.n,
       .queued = queued_s_,
       .to_first_token = usage_.completion_tokens > 0 ? seconds(first_token_ - start_) : -1,
       .whole = seconds(end - start_)});
}

// Once for each request: what it waited for this process alone.
void Production::note_own_time() {
  const Instant handed_over = parts_[0].flight->handed_over();
  if (own_time_noted_ || handed_over == Instant{} || arrived_ == Instant{}) return;
  own_time_noted_ = true;
  model_.dispatcher.metrics().own_time(seconds(handed_over - start_) + seconds(now() - arrived_));
}

// Before the first byte an error is an answer of its own; after it the stream's last event.
void Production::fail(const ApiError& error) {
  recorded_ = true;
  model_.dispatcher.metrics().refused(error.status);
  if (!exchange_.begun()) throw error;
  if (exchange_.send(sse(error.body()) + std::string(kDone))) exchange_.end_events();
}

}  // namespace serving::gateway
