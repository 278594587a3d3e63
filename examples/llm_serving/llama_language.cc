#include "examples/llm_serving/llama_language.h"

#include <algorithm>
#include <random>

#include "examples/llm_serving/engine/chat_template.h"
#include "examples/llm_serving/engine/grammar.h"
#include "examples/llm_serving/engine/model_file.h"
#include "examples/llm_serving/engine/tokenizer.h"
#include "examples/llm_serving/gateway/api_error.h"

namespace serving {
namespace {

namespace json = boost::json;
using gateway::OutputFormat;

std::string call_id() {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  static constexpr char kLetters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  std::string id = "call_";
  for (int i = 0; i < 24; ++i) id += kLetters[random() % (sizeof kLetters - 1)];
  return id;
}

// What `now` has more than `told`: a parser may take back what was not certain, and then nothing is told until it is past.
std::string more_of(const std::string& now, std::string& told) {
  if (now.size() <= told.size() || !now.starts_with(told)) return {};
  std::string more = now.substr(told.size());
  told = now;
  return more;
}

class ChatReader : public gateway::OutputReader {
 public:
  explicit ChatReader(std::shared_ptr<const ChatPrompt> prompt) : prompt_(std::move(prompt)) {}

  News read(std::string_view piece, bool last) override {
    text_ += piece;
    News news;
    const Result<ChatAnswer> answer = ChatTemplate::parse(*prompt_, text_, !last);
    if (!answer) {  // no format that is known: it is text
      if (last && !called_) news.text = more_of(text_, told_.content);
      return news;
    }
    news.text = more_of(answer->content, told_.content);
    news.reasoning = more_of(answer->reasoning, told_.reasoning);
    for (size_t i = 0; i < answer->tool_calls.size(); ++i) read_call(i, answer->tool_calls[i], news);
    return news;
  }

 private:
  void read_call(size_t index, const ToolCall& call, News& news) {
    if (call.name.empty()) return;
    gateway::ToolCallDelta delta{.index = static_cast<int32_t>(index), .piece = {}};
    const bool fresh = index >= told_.tool_calls.size();
    if (fresh) {
      called_ = true;
      told_.tool_calls.push_back({.id = call.id, .name = call.name, .arguments = {}});
      delta.piece.id = call.id.empty() ? call_id() : call.id;
      delta.piece.name = call.name;
    }
    delta.piece.arguments = more_of(call.arguments, told_.tool_calls[index].arguments);
    if (fresh || !delta.piece.arguments.empty()) news.tool_calls.push_back(std::move(delta));
  }

  const std::shared_ptr<const ChatPrompt> prompt_;
  std::string text_;
  ChatAnswer told_;
  bool called_ = false;
};

class LlamaLanguage : public gateway::Language {
 public:
  LlamaLanguage(std::unique_ptr<Tokenizer> tokenizer, ChatTemplate chat, int32_t context)
      : tokenizer_(std::move(tokenizer)), chat_(std::move(chat)), context_(context) {}

  std::vector<Token> tokenize(std::string_view text, bool add_special, bool marks) const override {
    return tokenizer_->encode(text, marks ? Special::kParsed : Special::kPlain, add_special);
  }
  PromptTokens tokenize_prompt(std::string_view text, bool marks) const override {
    Tokenizer::Bounded bounded = tokenizer_->encode_up_to(text, marks ? Special::kParsed : Special::kPlain, context_);
    return {std::move(bounded.tokens), bounded.at_least};
  }
  std::string piece(Token token) const override { return tokenizer_->piece(token, true); }
  std::string detokenize(std::span<const Token> tokens) const override {
    return tokenizer_->decode({tokens.begin(), tokens.end()}, true);
  }
  int32_t vocabulary() const override { return tokenizer_->size(); }
  int32_t context_tokens() const override { return context_; }

  gateway::RenderedChat render(const gateway::ChatRequest& request) const override {
    ChatRequest asked;
    asked.messages = json::serialize(request.messages);
    const bool tools = !request.tools.empty() && request.tool_choice.kind != gateway::ToolChoice::Kind::kNone;
    if (tools) asked.tools = json::serialize(request.tools);
    asked.tool_choice = tools && request.tool_choice.kind != gateway::ToolChoice::Kind::kAuto ? "required" : "auto";
    if (!tools) asked.tool_choice = "none";
    if (request.tool_choice.kind == gateway::ToolChoice::Kind::kNamed) asked.named_tool = request.tool_choice.name;
    asked.parallel_tool_calls = request.parallel_tool_calls;
    if (!request.template_arguments.empty()) asked.template_arguments = json::serialize(request.template_arguments);
    const OutputFormat& format = request.generation.format;
    if (format.kind == OutputFormat::Kind::kJsonSchema) asked.json_schema = format.text;
    if (format.kind == OutputFormat::Kind::kJsonObject) asked.json_schema = R"({"type":"object"})";
    Result<ChatPrompt> made = chat_.apply(asked);
    if (!made) {
      if (format.kind == OutputFormat::Kind::kJsonSchema) grammar(format);  // throws where that is what is wrong
      throw gateway::bad_request(made.problem().what, "messages", "invalid_value");
    }
    gateway::RenderedChat rendered = {.prompt = made->text,
                                      .grammar = made->grammar,
                                      .grammar_prefix = made->grammar_prefix,
                                      .grammar_triggers = made->grammar_triggers,
                                      .grammar_trigger_tokens = made->grammar_trigger_tokens,
                                      .shown = made->shown,
                                      .stop = made->stop,
                                      .reader = {}};
    if (format.kind == OutputFormat::Kind::kGrammar) rendered.grammar = grammar(format);
    if (format.kind == OutputFormat::Kind::kJsonSchema && !tools) try_grammar(rendered.grammar, "response_format");
    if (tools && !rendered.grammar.empty()) try_grammar(rendered.grammar, "tools");
    if (tools || thinks(*made)) {
      auto shared = std::make_shared<const ChatPrompt>(std::move(*made));
      rendered.reader = [shared] { return std::make_unique<ChatReader>(shared); };
    }
    return rendered;
  }

  std::string grammar(const OutputFormat& format) const override {
    Result<std::string> made = std::string();
    if (format.kind == OutputFormat::Kind::kJsonSchema) made = schema_to_grammar(format.text);
    if (format.kind == OutputFormat::Kind::kJsonObject) made = schema_to_grammar(R"({"type":"object"})");
    if (format.kind == OutputFormat::Kind::kGrammar) made = checks_.check(format.text, *tokenizer_);
    const bool own = format.kind == OutputFormat::Kind::kGrammar;
    if (!made) throw gateway::bad_request(made.problem().what, own ? "grammar" : "response_format", "invalid_value");
    if (format.kind == OutputFormat::Kind::kJsonSchema) try_grammar(*made, "response_format");
    return *made;
  }

 private:
  // One that takes too long is the client's error here, and would be everybody's wait in an engine.
  void try_grammar(const std::string& text, const char* parameter) const {
    if (const Result<std::string> tried = checks_.check(text, *tokenizer_); !tried)
      throw gateway::bad_request(tried.problem().what, parameter, "invalid_value");
  }

  // Whether this format has reasoning to be told apart. Where not, output needs no reader.
  static bool thinks(const ChatPrompt& prompt) {
    const std::string probe = "<think>a</think>b";
    const Result<ChatAnswer> answer = ChatTemplate::parse(prompt, probe, false);
    return !answer || answer->content != probe;
  }

  const std::unique_ptr<Tokenizer> tokenizer_;
  const ChatTemplate chat_;
  mutable GrammarChecks checks_;
  const int32_t context_;
};

}  // namespace

Result<std::shared_ptr<const gateway::Language>> load_language(const std::string& model_path, int32_t max_context) {
  Result<Tokenizer> loaded = Tokenizer::load(model_path);
  if (!loaded) return loaded.problem();
  auto tokenizer = std::make_unique<Tokenizer>(std::move(*loaded));
  Result<ChatTemplate> chat = ChatTemplate::load(*tokenizer);
  if (!chat) return chat.problem();
  const Result<ModelFile> file = check_model_file(model_path);  // the vocabulary alone does not tell the context
  if (!file) return file.problem();
  int32_t context = file->trained_context;
  if (max_context > 0) context = std::min(context, max_context);
  return std::shared_ptr<const gateway::Language>(
      std::make_shared<LlamaLanguage>(std::move(tokenizer), std::move(*chat), context));
}

}  // namespace serving
