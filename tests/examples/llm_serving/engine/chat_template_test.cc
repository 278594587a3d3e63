// If these fail, a chat request reaches the model in a form that it was not trained on, a client's mistake looks like
// ours, or a tool call arrives as text.
#include "examples/llm_serving/engine/chat_template.h"

#include <gtest/gtest.h>

#include "examples/llm_serving/engine/grammar.h"
#include "tests/examples/llm_serving/engine/engine_harness.h"

namespace serving {
namespace {

constexpr const char* kTools =
    R"([{"type":"function","function":{"name":"get_weather","description":"Weather of a city",
  "parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}},
  {"type":"function","function":{"name":"get_time","parameters":{"type":"object","properties":{}}}}])";

const ChatTemplate& chat() {
  static const Result<ChatTemplate> loaded = ChatTemplate::load(test_tokenizer());
  EXPECT_TRUE(loaded.ok()) << loaded.problem().what;
  return *loaded;
}

ChatRequest user_says(const std::string& text) {
  ChatRequest request;
  request.messages = R"([{"role":"user","content":")" + text + "\"}]";
  return request;
}

TEST(ChatTemplate, MessagesBecomeTheModelsPrompt) {
  const Result<ChatPrompt> prompt = chat().apply(user_says("Hi"));
  ASSERT_TRUE(prompt.ok()) << prompt.problem().what;
  EXPECT_EQ(prompt->text,
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_TRUE(prompt->grammar.empty());
}

TEST(ChatTemplate, TheLastMessageCanGoOn) {
  ChatRequest request;
  request.messages = R"([{"role":"user","content":"Count"},{"role":"assistant","content":"One, two,"}])";
  request.continue_final_message = true;
  const Result<ChatPrompt> prompt = chat().apply(request);
  ASSERT_TRUE(prompt.ok()) << prompt.problem().what;
  EXPECT_TRUE(prompt->text.ends_with("<|im_start|>assistant\nOne, two,")) << prompt->text;
}

TEST(ChatTemplate, WrongMessagesAreTheClientsError) {
  for (const char* messages : {"{", "{}", "[1]", R"([{"role":1}])", R"([{"content":"x"}])", R"(["text"])"}) {
    ChatRequest request;
    request.messages = messages;
    const Result<ChatPrompt> prompt = chat().apply(request);
    ASSERT_FALSE(prompt.ok()) << messages;
    EXPECT_FALSE(prompt.problem().what.empty()) << messages;
  }
}

TEST(ChatTemplate, ARequiredToolCallIsAGrammarAndComesBackAsOne) {
  ChatRequest request = user_says("Weather in Rome?");
  request.tools = kTools;
  request.tool_choice = "required";
  const Result<ChatPrompt> prompt = chat().apply(request);
  ASSERT_TRUE(prompt.ok()) << prompt.problem().what;
  EXPECT_NE(prompt->text.find("get_weather"), std::string::npos) << "the model must be told of its tools";
  ASSERT_FALSE(prompt->grammar.empty());
  EXPECT_TRUE(prompt->grammar_triggers.empty() && prompt->grammar_trigger_tokens.empty());
  const Result<std::string> checked = check_grammar(prompt->grammar, test_tokenizer());
  EXPECT_TRUE(checked.ok()) << checked.problem().what;
}

TEST(ChatTemplate, AGenericAnswerComesInPartsThatOnlyGrow) {
  ChatRequest request = user_says("Weather in Rome?");
  request.tools = kTools;
  const Result<ChatPrompt> prompt = chat().apply(request);
  ASSERT_TRUE(prompt.ok()) << prompt.problem().what;
  const std::string text =
      R"({"tool_calls": [{"name": "get_weather", "arguments": {"city": "Ro\"me, {x}"}}, {"name": "get_time", "arguments": {}} ] } )";
  ChatAnswer before;
  for (size_t length = 0; length <= text.size(); ++length) {
    const ChatAnswer part = *ChatTemplate::parse(*prompt, text.substr(0, length), true);
    EXPECT_EQ(part.content, "");
    ASSERT_GE(part.tool_calls.size(), before.tool_calls.size());
    for (size_t i = 0; i < before.tool_calls.size(); ++i) {
      EXPECT_EQ(part.tool_calls[i].name, before.tool_calls[i].name);
      EXPECT_TRUE(part.tool_calls[i].arguments.starts_with(before.tool_calls[i].arguments));
    }
    before = part;
  }
  const ChatAnswer whole = *ChatTemplate::parse(*prompt, text, false);
  ASSERT_EQ(whole.tool_calls.size(), 2u);
  EXPECT_EQ(whole.tool_calls[0], (ToolCall{"", "get_weather", R"({"city": "Ro\"me, {x}"})"}));
  EXPECT_EQ(whole.tool_calls[1], (ToolCall{"", "get_time", "{}"}));
  std::string shown;
  const std::string answer = R"({"response": "It is \u00e9t\u00e9,\nand \ud83d\ude00."})";
  for (size_t length = 0; length <= answer.size(); ++length) {
    const ChatAnswer part = *ChatTemplate::parse(*prompt, answer.substr(0, length), true);
    EXPECT_TRUE(part.content.starts_with(shown)) << part.content;
    shown = part.content;
  }
  EXPECT_EQ(shown, "It is \xC3\xA9t\xC3\xA9,\nand \xF0\x9F\x98\x80.");
  EXPECT_EQ(ChatTemplate::parse(*prompt, "no JSON at all", false)->content, "no JSON at all");
}

TEST(ChatTemplate, ANamedToolExcludesTheOthers) {
  ChatRequest request = user_says("What time is it?");
  request.tools = kTools;
  request.named_tool = "get_time";
  const Result<ChatPrompt> prompt = chat().apply(request);
  ASSERT_TRUE(prompt.ok()) << prompt.problem().what;
  EXPECT_NE(prompt->grammar.find("get_time"), std::string::npos);
  EXPECT_EQ(prompt->grammar.find("get_weather"), std::string::npos);
  request.named_tool = "nothing";
  EXPECT_FALSE(chat().apply(request).ok());
}

TEST(ChatTemplate, NoToolsAreCalledWhereNoneMayBe) {
  ChatRequest request = user_says("Hi");
  request.tools = kTools;
  request.tool_choice = "none";
  const Result<ChatPrompt> prompt = chat().apply(request);
  ASSERT_TRUE(prompt.ok()) << prompt.problem().what;
  const Result<ChatAnswer> answer = ChatTemplate::parse(*prompt, "Hello.", false);
  ASSERT_TRUE(answer.ok()) << answer.problem().what;
  EXPECT_EQ(answer->content, "Hello.");
  EXPECT_TRUE(answer->tool_calls.empty());
}

TEST(ChatTemplate, AnAnswersPartsGrowAndNothingIsTakenBack) {
  const Result<ChatPrompt> prompt = chat().apply(user_says("Hi"));
  ASSERT_TRUE(prompt.ok());
  const std::string text = "Hello! How can I help?";
  std::string before;
  for (size_t length = 1; length <= text.size(); ++length) {
    const Result<ChatAnswer> part = ChatTemplate::parse(*prompt, text.substr(0, length), true);
    ASSERT_TRUE(part.ok()) << part.problem().what;
    EXPECT_TRUE(part->content.starts_with(before));
    before = part->content;
  }
  EXPECT_EQ(ChatTemplate::parse(*prompt, text, false)->content, text);
}

TEST(ChatTemplate, ASchemaBindsTheAnswer) {
  ChatRequest request = user_says("Who?");
  request.json_schema = R"({"type":"object","properties":{"name":{"type":"string"}},"required":["name"]})";
  const Result<ChatPrompt> prompt = chat().apply(request);
  ASSERT_TRUE(prompt.ok()) << prompt.problem().what;
  EXPECT_NE(prompt->grammar.find("name"), std::string::npos);
}

}  // namespace
}  // namespace serving
