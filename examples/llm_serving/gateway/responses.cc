#include "examples/llm_serving/gateway/responses.h"

#include <algorithm>
#include <bit>
#include <boost/beast/core/detail/base64.hpp>
#include <cmath>
#include <cstring>

#include "examples/llm_serving/gateway/json_text.h"

namespace serving::gateway {
namespace {

namespace json = boost::json;

json::array bytes_of(std::string_view text) {
  json::array bytes;
  for (const unsigned char byte : text) bytes.push_back(static_cast<int64_t>(byte));
  return bytes;
}

json::object chat_candidate(const Candidate& candidate) {
  return {{"token", valid_utf8(candidate.token)},
          {"logprob", shortest(candidate.logprob)},
          {"bytes", bytes_of(candidate.token)}};
}

json::object chat_logprobs(const std::vector<TokenDetail>& details) {
  json::array content;
  for (const TokenDetail& detail : details) {
    json::object entry = chat_candidate(detail.chosen);
    json::array top;
    for (const Candidate& candidate : detail.top) top.push_back(chat_candidate(candidate));
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

// The chosen one is among them, though it may be none of the best.
json::object alternatives(const TokenDetail& detail) {
  json::object top;
  for (const Candidate& candidate : detail.top) top[valid_utf8(candidate.token)] = shortest(candidate.logprob);
  top.emplace(valid_utf8(detail.chosen.token), shortest(detail.chosen.logprob));
  return top;
}

json::object completion_logprobs(const std::vector<TokenDetail>& details, int64_t offset) {
  json::array tokens, logprobs, tops, offsets;
  for (const TokenDetail& detail : details) {
    tokens.push_back(json::string(valid_utf8(detail.chosen.token)));
    logprobs.push_back(shortest(detail.chosen.logprob));
    tops.push_back(std::isnan(detail.chosen.logprob) ? json::value(nullptr) : json::value(alternatives(detail)));
    offsets.push_back(std::max<int64_t>(0, offset));
    offset += static_cast<int64_t>(characters(detail.chosen.token));
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

json::object usage_object(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", json::object{{"cached_tokens", usage.cached_tokens}}}};
}

json::object message_of(const Choice& choice) {
  json::object message = {{"role", "assistant"}};
  if (choice.text.empty() && !choice.tool_calls.empty())
    message["content"] = nullptr;
  else
    message["content"] = choice.text;
  message["refusal"] = nullptr;
  if (!choice.reasoning.empty()) message["reasoning_content"] = choice.reasoning;
  if (choice.tool_calls.empty()) return message;
  json::array calls;
  for (const ToolCall& call : choice.tool_calls) {
    const json::object function = {{"name", call.name}, {"arguments", call.arguments}};
    calls.push_back(json::object{{"id", call.id}, {"type", "function"}, {"function", function}});
  }
  message["tool_calls"] = std::move(calls);
  return message;
}

// Little-endian float32, as OpenAI's clients unpack it.
std::string base64_of(const std::vector<float>& vector) {
  static_assert(std::endian::native == std::endian::little);
  namespace base64 = boost::beast::detail::base64;
  const size_t bytes = vector.size() * sizeof(float);
  std::string out(base64::encoded_size(bytes), '\0');
  out.resize(base64::encode(out.data(), vector.data(), bytes));
  return out;
}

}  // namespace

Answers::Answers(Api api, std::string id, int64_t created, std::string model)
    : api_(api), id_(std::move(id)), created_(created), model_(std::move(model)) {
  before_index_ = to_json(head(true));
  before_index_.back() = ',';
  before_index_ += R"("choices":[{"index":)";
}

json::object Answers::head(bool chunk) const {
  const char* object = api_ == Api::kCompletion ? "text_completion"
                       : chunk                  ? "chat.completion.chunk"
                                                : "chat.completion";
  return {
      {"id", id_}, {"object", object}, {"created", created_}, {"model", model_}, {"system_fingerprint", kFingerprint}};
}

json::value Answers::logprobs(const std::vector<TokenDetail>& details, int64_t offset) const {
  if (api_ == Api::kChat) return chat_logprobs(details);
  return completion_logprobs(details, offset);
}

std::string Answers::whole(const std::vector<Choice>& choices, const Usage& usage) const {
  json::object body = head(false);
  json::array list;
  for (const Choice& choice : choices) {
    json::object one = {{"index", static_cast<int64_t>(list.size())}};
    if (api_ == Api::kChat)
      one["message"] = message_of(choice);
    else
      one["text"] = choice.text;
    one["logprobs"] = choice.has_details ? logprobs(choice.details, choice.offset) : json::value(nullptr);
    one["finish_reason"] = choice.finish_reason;
    list.push_back(std::move(one));
  }
  body["choices"] = std::move(list);
  body["usage"] = usage_object(usage);
  return to_json(body);
}

std::string Answers::chunk(int32_t index, json::object delta, json::value finish) const {
  json::object choice = {{"index", index}};
  if (api_ == Api::kChat) {
    json::value details = nullptr;
    if (json::value* found = delta.if_contains("logprobs")) {
      details = std::move(*found);
      delta.erase("logprobs");
    }
    choice["delta"] = std::move(delta);
    choice["logprobs"] = std::move(details);
  } else {
    choice["text"] = delta.contains("text") ? delta["text"] : json::value("");
    choice["logprobs"] = delta.contains("logprobs") ? delta["logprobs"] : json::value(nullptr);
  }
  choice["finish_reason"] = std::move(finish);
  json::object body = head(true);
  body["choices"] = json::array{std::move(choice)};
  return to_json(body);
}

std::string Answers::first(int32_t index) const {
  return chunk(index, {{"role", "assistant"}, {"content", ""}}, nullptr);
}

// What nearly every token is told by: put together from what all chunks have alike.
std::string Answers::plain(int32_t index, std::string_view piece) const {
  std::string out = before_index_;
  out += std::to_string(index);
  out += api_ == Api::kChat ? R"(,"delta":{"content":)" : R"(,"text":)";
  out += json::serialize(json::string_view(piece.data(), piece.size()));
  out += api_ == Api::kChat ? "}" : "";
  out += R"(,"logprobs":null,"finish_reason":null}]})";
  return out;
}

std::string Answers::text(int32_t index, std::string_view piece, const std::vector<TokenDetail>* details,
                          int64_t offset) const {
  if (details == nullptr) return plain(index, piece);
  json::object delta = {{api_ == Api::kChat ? "content" : "text", piece}};
  delta["logprobs"] = logprobs(*details, offset);
  return chunk(index, std::move(delta), nullptr);
}

std::string Answers::reasoning(int32_t index, std::string_view piece) const {
  return chunk(index, {{"reasoning_content", piece}}, nullptr);
}

std::string Answers::tool_call(int32_t index, const ToolCallDelta& delta) const {
  json::object call = {{"index", delta.index}};
  json::object function;
  if (!delta.piece.id.empty()) {
    call["id"] = delta.piece.id;
    call["type"] = "function";
  }
  if (!delta.piece.name.empty()) function["name"] = delta.piece.name;
  function["arguments"] = delta.piece.arguments;
  call["function"] = std::move(function);
  return chunk(index, {{"tool_calls", json::array{std::move(call)}}}, nullptr);
}

std::string Answers::finish(int32_t index, std::string_view reason) const {
  return chunk(index, {}, json::value(json::string_view(reason.data(), reason.size())));
}

std::string Answers::usage(const Usage& usage) const {
  json::object body = head(true);
  body["choices"] = json::array();
  body["usage"] = usage_object(usage);
  return to_json(body);
}

std::string sse(std::string_view data) {
  std::string event = "data: ";
  event += data;
  event += "\n\n";
  return event;
}

std::string embeddings_body(const std::string& model, const std::vector<std::vector<float>>& vectors, bool base64,
                            int64_t prompt_tokens) {
  json::array data;
  for (const std::vector<float>& vector : vectors) {
    json::object one = {{"object", "embedding"}, {"index", static_cast<int64_t>(data.size())}};
    if (base64) {
      one["embedding"] = base64_of(vector);
    } else {
      json::array numbers;
      numbers.reserve(vector.size());
      for (const float number : vector) numbers.push_back(shortest(number));
      one["embedding"] = std::move(numbers);
    }
    data.push_back(std::move(one));
  }
  const json::object usage = {{"prompt_tokens", prompt_tokens}, {"total_tokens", prompt_tokens}};
  return to_json(json::object{{"object", "list"}, {"data", std::move(data)}, {"model", model}, {"usage", usage}});
}

}  // namespace serving::gateway
