// The bodies that OpenAI's clients read: whole answers, and the chunks of a stream.
//
//   Answers answers(Answers::Api::kChat, "chatcmpl-1", created, "smollm2");
//   sse(answers.first(0)) + sse(answers.text(0, "Hi", {})) + sse(answers.finish(0, "stop")) + kDone
//
// Shapes that clients depend on: a role in the first chunk of a choice alone; `choices: []` in the chunk of counts and
// nowhere else; every chunk has id, object, created, model and choices; arguments of tool calls are a JSON text.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace serving::gateway {

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt
};

struct Candidate {
  std::string token;  // its bytes
  float logprob = 0;  // NaN: nothing stands before it, as before a prompt's first token
};

struct TokenDetail {
  Candidate chosen;
  std::vector<Candidate> top;
};

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // a JSON text
};

// What a stream tells of a tool call: id and name once, then pieces of the arguments.
struct ToolCallDelta {
  int32_t index = 0;
  ToolCall piece;
};

struct Choice {
  std::string text;
  std::string reasoning;
  std::vector<ToolCall> tool_calls;
  std::string finish_reason;
  std::vector<TokenDetail> details;  // of logprobs; told where has_details
  bool has_details = false;
  int64_t offset = 0;  // of the first of the details: see Answers::text
};

class Answers {
 public:
  enum class Api { kChat, kCompletion };
  Answers(Api api, std::string id, int64_t created, std::string model);

  // A whole answer.
  std::string whole(const std::vector<Choice>& choices, const Usage& usage) const;

  // Chunks of a stream.
  std::string first(int32_t index) const;  // of a chat: the role
  // `offset`: characters of text before this piece (text_offset of completions). Below 0: so many of its first tokens'
  // characters are not in the text, as those of a prompt's beginning mark are not.
  std::string text(int32_t index, std::string_view piece, const std::vector<TokenDetail>* details,
                   int64_t offset = 0) const;
  std::string reasoning(int32_t index, std::string_view piece) const;
  std::string tool_call(int32_t index, const ToolCallDelta& delta) const;
  std::string finish(int32_t index, std::string_view reason) const;
  std::string usage(const Usage& usage) const;

  Api api() const { return api_; }

 private:
  boost::json::object head(bool chunk) const;
  std::string plain(int32_t index, std::string_view piece) const;
  std::string chunk(int32_t index, boost::json::object delta, boost::json::value finish) const;
  boost::json::value logprobs(const std::vector<TokenDetail>& details, int64_t offset) const;

  Api api_;
  std::string id_;
  int64_t created_;
  std::string model_;
  std::string before_index_;  // of each chunk
};

// One event of a stream, and its end.
std::string sse(std::string_view data);
inline constexpr std::string_view kDone = "data: [DONE]\n\n";
inline constexpr std::string_view kPing = ": ping\n\n";

std::string embeddings_body(const std::string& model, const std::vector<std::vector<float>>& vectors, bool base64,
                            int64_t prompt_tokens);

// What tells one build of the service from another.
inline constexpr std::string_view kFingerprint = "rayo-0.1.0";

}  // namespace serving::gateway
