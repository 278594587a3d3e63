// What a user loses if these fail: LangChain, openai-python or a curl script stops at a chunk that it cannot read.
#include "examples/llm_serving/gateway/responses.h"

#include <boost/json.hpp>
#include <gtest/gtest.h>

namespace serving::gateway {
namespace {

namespace json = boost::json;

const Answers kChat(Answers::Api::kChat, "chatcmpl-1", 1700000000, "m");
const Answers kCompletion(Answers::Api::kCompletion, "cmpl-1", 1700000000, "m");

constexpr const char* kHead =
    R"({"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","system_fingerprint":"rayo-0.1.0",)";

TEST(ChatStream, ChunksHaveOpenAisExactShapes) {
  const std::string head = kHead;
  EXPECT_EQ(
      kChat.first(0),
      head +
          R"("choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]})");
  EXPECT_EQ(kChat.text(1, "Hi", nullptr),
            head + R"("choices":[{"index":1,"delta":{"content":"Hi"},"logprobs":null,"finish_reason":null}]})");
  EXPECT_EQ(kChat.finish(0, "stop"),
            head + R"("choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]})");
  EXPECT_EQ(kChat.usage({.prompt_tokens = 9, .completion_tokens = 2, .cached_tokens = 4}),
            head + R"("choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11,)"
                   R"("prompt_tokens_details":{"cached_tokens":4}}})");
  EXPECT_EQ(sse("{}"), "data: {}\n\n");
}

TEST(ChatStream, ToolCallsTellNameOnceAndThenArguments) {
  const auto call = [](const std::string& chunk) {
    return json::serialize(json::parse(chunk).at("choices").at(0).at("delta").at("tool_calls").at(0));
  };
  EXPECT_EQ(call(kChat.tool_call(0, {.index = 0, .piece = {.id = "call_1", .name = "f", .arguments = ""}})),
            R"({"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":""}})");
  EXPECT_EQ(call(kChat.tool_call(0, {.index = 0, .piece = {.arguments = "{\"a\":"}})),
            R"({"index":0,"function":{"arguments":"{\"a\":"}})");
}

TEST(ChatLogprobs, TellTokenBytesAndAlternatives) {
  const std::vector<TokenDetail> details = {{.chosen = {"\xf0\x9f", -0.5f}, .top = {{"a", -0.25f}}}};
  const json::value chunk = json::parse(kChat.text(0, "", &details));
  const json::value& entry = chunk.at("choices").at(0).at("logprobs").at("content").at(0);
  EXPECT_EQ(entry.at("token").get_string(), "\xEF\xBF\xBD\xEF\xBF\xBD");  // half a character
  EXPECT_EQ(json::serialize(entry.at("bytes")), "[240,159]");
  EXPECT_EQ(entry.at("logprob").as_double(), -0.5);
  EXPECT_EQ(entry.at("top_logprobs").at(0).at("token").get_string(), "a");
}

TEST(CompletionStream, ChunksHaveOpenAisExactShapes) {
  const std::string head =
      R"({"id":"cmpl-1","object":"text_completion","created":1700000000,"model":"m","system_fingerprint":"rayo-0.1.0",)";
  EXPECT_EQ(kCompletion.text(3, "a \"quoted\"\n", nullptr),
            head + R"("choices":[{"index":3,"text":"a \"quoted\"\n","logprobs":null,"finish_reason":null}]})");
  EXPECT_EQ(kCompletion.finish(3, "stop"),
            head + R"("choices":[{"index":3,"text":"","logprobs":null,"finish_reason":"stop"}]})");
}

TEST(CompletionLogprobs, TellOffsetsInTheText) {
  const std::vector<TokenDetail> details = {{.chosen = {"ab", -1}, .top = {{"ab", -1}, {"c", -2}}},
                                            {.chosen = {"d", -3}, .top = {}}};
  const json::value chunk = json::parse(kCompletion.text(0, "abd", &details, 10));
  const json::value& logprobs = chunk.at("choices").at(0).at("logprobs");
  EXPECT_EQ(json::serialize(logprobs.at("tokens")), R"(["ab","d"])");
  EXPECT_EQ(json::serialize(logprobs.at("text_offset")), "[10,12]");
  EXPECT_EQ(logprobs.at("top_logprobs").at(0).at("c").as_double(), -2);
  // The chosen token is among the alternatives, and offsets count characters, as Python's strings do.
  EXPECT_EQ(json::serialize(logprobs.at("top_logprobs").at(1)), R"({"d":-3E0})");
  const std::vector<TokenDetail> smile = {{.chosen = {"\u00e9\xf0\x9f", -1}, .top = {}},
                                          {.chosen = {"\x98\x80", -1}, .top = {}},
                                          {.chosen = {"a", -1}, .top = {}}};
  EXPECT_EQ(json::serialize(json::parse(kCompletion.text(0, "\u00e9\U0001f600a", &smile))
                                .at("choices")
                                .at(0)
                                .at("logprobs")
                                .at("text_offset")),
            "[0,2,2]");
  EXPECT_EQ(chunk.at("object").get_string(), "text_completion");
  EXPECT_EQ(chunk.at("choices").at(0).at("text").get_string(), "abd");
}

TEST(WholeAnswer, IsWhatClientsParse) {
  const json::value chat = json::parse(kChat.whole({{.text = "Hi", .finish_reason = "stop"}}, {.prompt_tokens = 1}));
  EXPECT_EQ(chat.at("object").get_string(), "chat.completion");
  EXPECT_EQ(chat.at("choices").at(0).at("message").at("content").get_string(), "Hi");
  EXPECT_TRUE(chat.at("choices").at(0).at("logprobs").is_null());
  EXPECT_FALSE(chat.at("choices").at(0).at("message").get_object().contains("tool_calls"));
  const json::value tools = json::parse(kChat.whole(
      {{.tool_calls = {{.id = "call_1", .name = "f", .arguments = "{}"}}, .finish_reason = "tool_calls"}}, {}));
  const json::value& message = tools.at("choices").at(0).at("message");
  EXPECT_TRUE(message.at("content").is_null());
  EXPECT_EQ(message.at("tool_calls").at(0).at("function").at("arguments").get_string(), "{}");
  const json::value text = json::parse(kCompletion.whole({{.text = "a"}, {.text = "b"}}, {}));
  EXPECT_EQ(text.at("choices").at(1).at("text").get_string(), "b");
  EXPECT_EQ(text.at("choices").at(1).at("index").as_int64(), 1);
}

TEST(Embeddings, AreNumbersOrLittleEndianFloats) {
  const json::value numbers = json::parse(embeddings_body("m", {{0.5f, -0.1f}}, false, 3));
  EXPECT_EQ(numbers.at("data").at(0).at("embedding").at(1).as_double(), -0.1);
  EXPECT_EQ(numbers.at("usage").at("total_tokens").as_int64(), 3);
  const json::value packed = json::parse(embeddings_body("m", {{1.0f}}, true, 3));
  EXPECT_EQ(packed.at("data").at(0).at("embedding").get_string(), "AACAPw==");
}

}  // namespace
}  // namespace serving::gateway
