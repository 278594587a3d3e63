// What a user loses if these fail: an OpenAI client gets an answer to another question than the one it asked, or an
// error that its library does not understand.
#include "examples/llm_serving/gateway/requests.h"

#include <gtest/gtest.h>

#include "examples/llm_serving/gateway/api_error.h"
#include "examples/llm_serving/gateway/json_text.h"

namespace serving::gateway {
namespace {

template <class Parse>
ApiError refused(Parse parse, std::string_view body) {
  try {
    parse(body);
  } catch (const ApiError& error) {
    return error;
  }
  ADD_FAILURE() << "taken: " << body.substr(0, 200);
  return {};
}

std::string chat(const std::string& more, const std::string& messages = R"([{"role":"user","content":"Hi"}])") {
  return R"({"model":"m","messages":)" + messages + (more.empty() ? "" : "," + more) + "}";
}

TEST(ChatRequest, ReadsWhatOpenAisClientSends) {
  const ChatRequest request = parse_chat(chat(
      R"("max_completion_tokens":7,"n":2,"stream":true,"stream_options":{"include_usage":true},"stop":["a","b"],
         "temperature":0,"top_p":0.5,"seed":-3,"logit_bias":{"15":-100},"logprobs":true,"top_logprobs":3,
         "presence_penalty":1,"frequency_penalty":-1.5,"user":"u","store":false,"metadata":{"x":[1]},"top_k":40)"));
  const Generation& generation = request.generation;
  EXPECT_EQ(generation.model, "m");
  EXPECT_EQ(generation.max_tokens, 7);
  EXPECT_EQ(generation.n, 2);
  EXPECT_TRUE(generation.stream && generation.include_usage && generation.has_seed);
  EXPECT_EQ(generation.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(generation.sampling.temperature, 0);
  EXPECT_EQ(generation.sampling.top_p, 0.5f);
  EXPECT_EQ(generation.sampling.top_k, 40);
  EXPECT_EQ(generation.sampling.seed, static_cast<uint64_t>(-3));
  EXPECT_EQ(generation.sampling.logprobs, 3);
  EXPECT_EQ(generation.sampling.frequency_penalty, -1.5f);
  ASSERT_EQ(generation.sampling.logit_bias.size(), 1u);
  EXPECT_EQ(generation.sampling.logit_bias[0].token, 15);
  EXPECT_EQ(generation.sampling.logit_bias[0].bias, -100);
}

TEST(ChatRequest, DefaultsAreOpenAis) {
  const ChatRequest request = parse_chat(chat(R"("stop":null,"temperature":null,"tools":null,"seed":null)"));
  EXPECT_FALSE(request.generation.max_tokens);
  EXPECT_EQ(request.generation.sampling.temperature, 1);
  EXPECT_EQ(request.generation.sampling.top_p, 1);
  EXPECT_EQ(request.generation.sampling.logprobs, -1);
  EXPECT_FALSE(request.generation.stream || request.generation.has_seed);
  EXPECT_EQ(request.generation.n, 1);
  EXPECT_EQ(request.tool_choice.kind, ToolChoice::Kind::kAuto);
}

TEST(ChatRequest, LogprobsWithoutAlternativesTellTheTokensOwn) {
  EXPECT_EQ(parse_chat(chat(R"("logprobs":true)")).generation.sampling.logprobs, 0);
}

struct Refusal {
  const char* more;
  const char* code;
  const char* param;
};

TEST(ChatRequest, WrongFieldsAreRefusedAsOpenAiRefusesThem) {
  const Refusal table[] = {
      {R"("temperature":"hot")", "invalid_type", "temperature"},
      {R"("temperature":3)", "decimal_above_max_value", "temperature"},
      {R"("temperature":-0.1)", "decimal_below_min_value", "temperature"},
      {R"("temperature":1e400)", "decimal_above_max_value", "temperature"},
      {R"("top_p":1.5)", "decimal_above_max_value", "top_p"},
      {R"("n":0)", "integer_below_min_value", "n"},
      {R"("n":1.5)", "invalid_type", "n"},
      {R"("n":99999999999999999999)", "integer_above_max_value", "n"},
      {R"("n":1e30)", "integer_above_max_value", "n"},
      {R"("max_tokens":-1)", "integer_below_min_value", "max_tokens"},
      {R"("max_tokens":4294967296)", "integer_above_max_value", "max_tokens"},
      {R"("max_completion_tokens":"7")", "invalid_type", "max_completion_tokens"},
      {R"("stream":"yes")", "invalid_type", "stream"},
      {R"("stream_options":{"include_usage":true})", "invalid_value", "stream_options"},
      {R"("stop":5)", "invalid_type", "stop"},
      {R"("stop":[1])", "invalid_type", "stop[0]"},
      {R"("stop":"")", "invalid_value", "stop"},
      {R"("logit_bias":{"x":1})", "invalid_value", "logit_bias"},
      {R"("logit_bias":{"-1":1})", "invalid_value", "logit_bias"},
      {R"("logit_bias":{"1":101})", "decimal_above_max_value", "logit_bias.1"},
      {R"("logit_bias":[1])", "invalid_type", "logit_bias"},
      {R"("top_logprobs":2)", "invalid_value", "top_logprobs"},
      {R"("logprobs":true,"top_logprobs":21)", "integer_above_max_value", "top_logprobs"},
      {R"("response_format":{"type":"yaml"})", "invalid_value", "response_format.type"},
      {R"("response_format":{"type":"json_schema"})", "missing_required_parameter", "response_format.json_schema"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"x"}})", "missing_required_parameter",
       "response_format.json_schema.schema"},
      {R"("response_format":{"type":"json_object"},"grammar":"root ::= \"a\"")", "invalid_value", "grammar"},
      {R"("repetition_penalty":0)", "decimal_below_min_value", "repetition_penalty"},
      {R"("tools":[{"type":"function"}])", "missing_required_parameter", "tools[0].function"},
      {R"("tools":[{"type":"function","function":{"name":"a b"}}])", "invalid_value", "tools[0].function.name"},
      {R"("tools":[{"type":"retrieval"}])", "invalid_value", "tools[0].type"},
      {R"("tool_choice":"required")", "invalid_value", "tool_choice"},
      {R"("tool_choice":"sometimes")", "invalid_value", "tool_choice"},
      {R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"g"}})",
       "invalid_value", "tool_choice"},
      {R"("seed":1.5)", "invalid_type", "seed"},
  };
  for (const Refusal& row : table) {
    const ApiError error = refused(parse_chat, chat(row.more));
    EXPECT_EQ(error.status, 400) << row.more;
    EXPECT_EQ(error.type, "invalid_request_error") << row.more;
    EXPECT_EQ(error.code, row.code) << row.more << ": " << error.message;
    EXPECT_EQ(error.param, row.param) << row.more << ": " << error.message;
  }
}

TEST(ChatRequest, WrongMessagesAreRefused) {
  const Refusal table[] = {
      {"[]", "empty_array", "messages"},
      {R"("Hi")", "invalid_type", "messages"},
      {"null", "missing_required_parameter", "messages"},
      {"[123]", "invalid_type", "messages[0]"},
      {"[{}]", "missing_required_parameter", "messages[0].role"},
      {R"([{"role":5,"content":"x"}])", "invalid_type", "messages[0].role"},
      {R"([{"role":"wizard","content":"x"}])", "invalid_value", "messages[0].role"},
      {R"([{"role":"user","content":5}])", "invalid_type", "messages[0].content"},
      {R"([{"role":"user"}])", "invalid_type", "messages[0].content"},
      {R"([{"role":"user","content":[]}])", "empty_array", "messages[0].content"},
      {R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:"}}]}])", "unsupported_content",
       "messages[0].content[0].type"},
      {R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"input_audio","input_audio":{}}]}])",
       "unsupported_content", "messages[0].content[1].type"},
      {R"([{"role":"user","content":[{"type":"text"}]}])", "missing_required_parameter", "messages[0].content[0].text"},
      {R"([{"role":"assistant","content":null}])", "invalid_type", "messages[0].content"},
      {R"([{"role":"tool","content":"4"}])", "missing_required_parameter", "messages[0].tool_call_id"},
      {R"([{"role":"assistant","tool_calls":[{"id":"1"}]}])", "missing_required_parameter",
       "messages[0].tool_calls[0].function"},
  };
  for (const Refusal& row : table) {
    const ApiError error = refused(parse_chat, chat("", row.more));
    EXPECT_EQ(error.code, row.code) << row.more << ": " << error.message;
    EXPECT_EQ(error.param, row.param) << row.more << ": " << error.message;
  }
}

TEST(ChatRequest, PartsOfTextAndToolTurnsPassAndDeveloperIsSystem) {
  const ChatRequest request = parse_chat(chat("", R"([{"role":"developer","content":"Be brief."},
      {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"name":null},
      {"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},
      {"role":"tool","tool_call_id":"1","content":"4"}])"));
  ASSERT_EQ(request.messages.size(), 4u);
  EXPECT_EQ(request.messages[0].at("role").get_string(), "system");
  EXPECT_FALSE(request.messages[1].get_object().contains("name"));  // null is absence
  EXPECT_EQ(request.messages[1].at("content").get_array().size(), 2u);
}

TEST(ChatRequest, SchemasAndToolsArriveWhole) {
  const ChatRequest request = parse_chat(chat(
      R"("response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{"type":"object"}}},
         "tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],
         "tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false)"));
  EXPECT_EQ(request.generation.format.kind, OutputFormat::Kind::kJsonSchema);
  EXPECT_EQ(request.generation.format.text, R"({"type":"object"})");
  EXPECT_EQ(request.tool_choice.kind, ToolChoice::Kind::kNamed);
  EXPECT_EQ(request.tool_choice.name, "f");
  EXPECT_FALSE(request.parallel_tool_calls);
  ASSERT_EQ(request.tools.size(), 1u);
}

TEST(Body, WhatIsNoJsonIsRefused) {
  const std::string deep = R"({"model":"m","messages":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  const std::string bad_text = chat("", "[{\"role\":\"user\",\"content\":\"\xff\xfe\"}]");
  const std::string lone = chat("", R"([{"role":"user","content":"\ud800"}])");
  for (const std::string& body :
       {std::string(), std::string("{"), std::string("[]"), std::string("12"), std::string("null"), chat("") + "x",
        deep, bad_text, lone, std::string("{\"a\":NaN}")}) {
    const ApiError error = refused(parse_chat, body);
    EXPECT_EQ(error.status, 400) << body.substr(0, 80);
    EXPECT_FALSE(error.message.empty());
  }
  EXPECT_EQ(refused(parse_chat, R"({"messages":[{"role":"user","content":"Hi"}]})").param, "model");
  EXPECT_EQ(refused(parse_chat, R"({"model":7,"messages":[{"role":"user","content":"Hi"}]})").code, "invalid_type");
}

TEST(CompletionRequest, TakesTextsAndTokens) {
  EXPECT_EQ(std::get<std::string>(parse_completion(R"({"model":"m","prompt":"Hi"})").prompts.at(0)), "Hi");
  EXPECT_EQ(parse_completion(R"({"model":"m","prompt":["a","b"]})").prompts.size(), 2u);
  EXPECT_EQ(std::get<std::vector<Token>>(parse_completion(R"({"model":"m","prompt":[1,2]})").prompts.at(0)),
            (std::vector<Token>{1, 2}));
  EXPECT_EQ(parse_completion(R"({"model":"m","prompt":[[1],[2,3]]})").prompts.size(), 2u);
  EXPECT_EQ(parse_completion(R"({"model":"m","prompt":"Hi"})").generation.max_tokens, 16);
  EXPECT_EQ(parse_completion(R"({"model":"m","prompt":"Hi","logprobs":2})").generation.sampling.logprobs, 2);
  EXPECT_TRUE(parse_completion(R"({"model":"m","prompt":"Hi","echo":true})").echo);
}

TEST(CompletionRequest, RefusesWhatItCannotDo) {
  const auto code = [](const char* body) { return refused(parse_completion, body).code; };
  EXPECT_EQ(code(R"({"model":"m"})"), "missing_required_parameter");
  EXPECT_EQ(code(R"({"model":"m","prompt":[]})"), "empty_array");
  EXPECT_EQ(code(R"({"model":"m","prompt":[1,"a"]})"), "invalid_type");
  EXPECT_EQ(code(R"({"model":"m","prompt":[-1]})"), "invalid_value");
  EXPECT_EQ(code(R"({"model":"m","prompt":"a","suffix":"b"})"), "unsupported_parameter");
  EXPECT_EQ(code(R"({"model":"m","prompt":"a","best_of":3})"), "unsupported_parameter");
  EXPECT_EQ(code(R"({"model":"m","prompt":"a","max_tokens":0})"), "integer_below_min_value");
  EXPECT_EQ(parse_completion(R"({"model":"m","prompt":"a","max_tokens":0,"echo":true})").generation.max_tokens, 0);
}

TEST(EmbeddingRequest, KnowsBothFormats) {
  EXPECT_TRUE(parse_embedding(R"({"model":"m","input":"Hi","encoding_format":"base64"})").base64);
  EXPECT_FALSE(parse_embedding(R"({"model":"m","input":["Hi","Ho"]})").base64);
  EXPECT_EQ(refused(parse_embedding, R"({"model":"m","input":""})").code, "invalid_value");
  EXPECT_EQ(refused(parse_embedding, R"({"model":"m","input":"a","dimensions":5})").code, "unsupported_parameter");
}

TEST(TokenizeRequest, TakesTheNamesOfBothServers) {
  EXPECT_EQ(parse_tokenize(R"({"prompt":"Hi"})").text, "Hi");
  EXPECT_EQ(parse_tokenize(R"({"content":"Ho"})").text, "Ho");
  EXPECT_TRUE(parse_tokenize(R"({"messages":[{"role":"user","content":"Hi"}]})").chat.has_value());
  EXPECT_EQ(parse_detokenize(R"({"tokens":[1,2]})").tokens.size(), 2u);
  EXPECT_EQ(refused(parse_detokenize, R"({"tokens":[1.5]})").code, "invalid_type");
}

TEST(ApiErrorBody, HasOpenAisShape) {
  EXPECT_EQ(bad_request("No.", "n", "invalid_type").body(),
            R"({"error":{"message":"No.","type":"invalid_request_error","param":"n","code":"invalid_type"}})");
  EXPECT_EQ(server_error("Oh.").body(),
            R"({"error":{"message":"Oh.","type":"server_error","param":null,"code":null}})");
  EXPECT_EQ(overloaded("Busy.", 1e9).retry_after_s, 60);  // beyond 120 s openai-python does not come again
  EXPECT_EQ(overloaded("Busy.", 0).retry_after_s, 1);
}

TEST(JsonText, DecimalsAndTextsAreReadable) {
  EXPECT_EQ(to_json(boost::json::parse(R"({"a":0.25,"b":[1,2.0,-3],"c":"\n\"","d":{},"e":[],"f":null,"g":true})")),
            R"({"a":0.25,"b":[1,2.0,-3],"c":"\n\"","d":{},"e":[],"f":null,"g":true})");
  EXPECT_EQ(to_json(shortest(-0.1f)), "-0.1");
  EXPECT_EQ(to_json(boost::json::value(std::numeric_limits<double>::infinity())), "null");
  EXPECT_EQ(valid_utf8("a\xffz"), "a\xEF\xBF\xBDz");
  EXPECT_EQ(valid_utf8("\xf0\x9f\x98\x80"), "\xf0\x9f\x98\x80");
  EXPECT_EQ(valid_utf8("\xed\xa0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // half of a surrogate pair
  EXPECT_EQ(valid_utf8("\xe2\x82"), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

}  // namespace
}  // namespace serving::gateway
