// The bodies of OpenAI's API as values. Each parse_...() checks types and ranges and throws the ApiError that OpenAI
// answers; unknown fields are ignored. What needs the model (token numbers, lengths, templates) is checked later.
//
// Beyond OpenAI's: top_k, min_p, typical_p, repetition_penalty (repeat_penalty), ignore_eos, grammar, as vLLM and
// llama-server name them.
#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "examples/llm_serving/protocol.h"

namespace serving::gateway {

// What the output must look like.
struct OutputFormat {
  enum class Kind { kText, kJsonObject, kJsonSchema, kGrammar };
  Kind kind = Kind::kText;
  std::string text;  // the schema as JSON, or the grammar (GBNF)
};

// What chat and completions share.
struct Generation {
  std::string model;
  std::optional<int32_t> max_tokens;
  int32_t n = 1;
  bool stream = false;
  bool include_usage = false;  // with stream: a last chunk with the counts
  std::vector<std::string> stop;
  Sampling sampling;  // without a grammar yet; logprobs as asked
  bool has_seed = false;
  OutputFormat format;
};

struct ToolChoice {
  enum class Kind { kNone, kAuto, kRequired, kNamed };
  Kind kind = Kind::kAuto;
  std::string name;
};

struct ChatRequest {
  Generation generation;
  boost::json::array messages;  // as they came, checked; role `developer` is `system`
  boost::json::array tools;
  ToolChoice tool_choice;
  bool parallel_tool_calls = true;
  boost::json::object template_arguments;  // chat_template_kwargs
};

using Prompt = std::variant<std::string, std::vector<Token>>;

struct CompletionRequest {
  Generation generation;
  std::vector<Prompt> prompts;
  bool echo = false;
};

struct EmbeddingRequest {
  std::string model;
  std::vector<Prompt> inputs;
  bool base64 = false;
};

struct TokenizeRequest {
  std::string model;                // empty: the only one
  std::optional<ChatRequest> chat;  // "messages" instead of a text
  std::string text;
  bool add_special = true;
};

struct DetokenizeRequest {
  std::string model;
  std::vector<Token> tokens;
};

ChatRequest parse_chat(std::string_view body);
CompletionRequest parse_completion(std::string_view body);
EmbeddingRequest parse_embedding(std::string_view body);
TokenizeRequest parse_tokenize(std::string_view body);
DetokenizeRequest parse_detokenize(std::string_view body);

}  // namespace serving::gateway
