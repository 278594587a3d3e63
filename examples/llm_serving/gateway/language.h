// What the gateway asks of a model's files: its tokens and its chat template. The engines' side implements it. Any
// thread; what may take milliseconds (tokenize, render, grammar) is asked off the io thread.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "examples/llm_serving/gateway/requests.h"
#include "examples/llm_serving/gateway/responses.h"

namespace serving::gateway {

// Reads a chat's output as the model's format writes it: text, reasoning, tool calls.
class OutputReader {
 public:
  struct News {
    std::string text;
    std::string reasoning;
    std::vector<ToolCallDelta> tool_calls;
  };
  virtual ~OutputReader() = default;
  // What the next piece of output adds for the client; `last`: it is the end. Throws nothing: what cannot be read is
  // text.
  virtual News read(std::string_view piece, bool last) = 0;
};

struct RenderedChat {
  std::string prompt;
  // As they stand in Sampling and Request.
  std::string grammar;
  std::vector<Token> grammar_prefix;
  std::vector<std::string> grammar_triggers;
  std::vector<Token> grammar_trigger_tokens;
  std::vector<Token> shown;
  std::vector<std::string> stop;
  // One for each choice; empty: output is text and nothing else.
  std::function<std::unique_ptr<OutputReader>()> reader;
};

class Language {
 public:
  virtual ~Language() = default;

  // `marks`: texts like <|im_end|> are the model's marks (a template wrote them), and not a user's characters.
  virtual std::vector<Token> tokenize(std::string_view text, bool add_special, bool marks) const = 0;
  // Of a prompt, with what stands before a text. One with more tokens than context_tokens() need not be read to its end: then
  // `at_least` says how many it has, and there are none.
  struct PromptTokens {
    std::vector<Token> tokens;
    int64_t at_least = 0;
  };
  virtual PromptTokens tokenize_prompt(std::string_view text, bool marks) const = 0;
  virtual std::string piece(Token token) const = 0;  // its bytes
  virtual std::string detokenize(std::span<const Token> tokens) const = 0;
  virtual int32_t vocabulary() const = 0;
  // Tokens of one request at most.
  virtual int32_t context_tokens() const = 0;

  // Throw ApiError 400 for what the template or the schema compiler does not take.
  virtual RenderedChat render(const ChatRequest& request) const = 0;
  virtual std::string grammar(const OutputFormat& format) const = 0;  // empty: none
};

}  // namespace serving::gateway
