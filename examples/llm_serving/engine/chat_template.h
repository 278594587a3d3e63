// The model's own chat template (Jinja, by llama.cpp's engine): messages to a prompt, and an answer back to content,
// reasoning and tool calls. A template that knows of no tools gets them by generic_tools.h.
//
//   Result<ChatPrompt> prompt = chat.apply({.messages = R"([{"role":"user","content":"Hi"}])"});
//   tokenizer.encode(prompt->text, Special::kParsed);
//   ...
//   Result<ChatAnswer> answer = chat.parse(*prompt, text, false);
//
// Read-only after load: any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "examples/llm_serving/engine/chat_answer.h"
#include "examples/llm_serving/engine/result.h"
#include "examples/llm_serving/engine/tokenizer.h"
#include "examples/llm_serving/protocol.h"

struct common_chat_templates;
struct common_chat_parser_params;
struct common_chat_templates_inputs;

namespace serving {

struct ChatRequest {
  std::string messages;              // JSON, as OpenAI's `messages`
  std::string tools;                 // JSON, as OpenAI's `tools`; empty: none
  std::string tool_choice = "auto";  // none, auto, required
  std::string named_tool;            // `tool_choice` names a function: this one and no other is called
  bool parallel_tool_calls = true;
  std::string json_schema;              // of response_format; empty: none
  std::string template_arguments;       // JSON object, as llama-server's and vLLM's chat_template_kwargs; empty: none
  bool continue_final_message = false;  // the last message is the assistant's, and its text goes on
};

struct ChatPrompt {
  std::string text;
  // For Sampling and Request, as they stand there. A grammar from here is the template's own and checked.
  std::string grammar;
  std::vector<Token> grammar_prefix;
  std::vector<std::string> grammar_triggers;
  std::vector<Token> grammar_trigger_tokens;
  std::vector<Token> shown;
  std::vector<std::string> stop;
  std::shared_ptr<const common_chat_parser_params> parser;  // for parse()
  bool generic_tools = false;                               // the same
};

class ChatTemplate {
 public:
  // The tokenizer outlives this. A model without a template gets ChatML's.
  static Result<ChatTemplate> load(const Tokenizer& tokenizer);

  // What the template or a schema refuses is the client's error (400, param `messages`): Problem::what says what it
  // was.
  Result<ChatPrompt> apply(const ChatRequest& request) const;

  // `partial`: more text will come; the answer holds what is certain so far, and grows from call to call.
  static Result<ChatAnswer> parse(const ChatPrompt& prompt, const std::string& text, bool partial);

 private:
  struct Free {
    void operator()(common_chat_templates* templates) const;
  };
  explicit ChatTemplate(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}
  Result<ChatPrompt> apply_inputs(const ChatRequest& request, common_chat_templates_inputs inputs) const;

  const Tokenizer* tokenizer_;
  std::unique_ptr<common_chat_templates, Free> templates_;
};

}  // namespace serving
