// The service over real sockets with engines that need no model. What a user loses if these fail: a client that gets no
// answer, half of one, or another one's; an engine that works for clients that have left; a server that stands still.
#include "examples/llm_serving/gateway/service.h"

#include "tests/examples/llm_serving/gateway/served.h"

namespace serving::gateway {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(ServiceTest, AnswersAChatWholeAndStreamed) {
  start();
  replicas(1);
  const Answer whole = ask(post("/v1/chat/completions", chat("Hi", 8)));
  EXPECT_EQ(whole.status, 200);
  EXPECT_EQ(whole.value().at("choices").at(0).at("message").at("content").as_string(), expected_text("Hi\n", 8));
  EXPECT_EQ(whole.value().at("choices").at(0).at("finish_reason").as_string(), "length");
  EXPECT_EQ(whole.value().at("usage").at("completion_tokens").as_int64(), 8);
  EXPECT_THAT(whole.head, HasSubstr("x-request-id: req_"));

  const Answer stream =
      ask(post("/v1/chat/completions", chat("Hi", 8, R"(,"stream":true,"stream_options":{"include_usage":true})"),
               "x-request-id: mine\r\n"));
  EXPECT_THAT(stream.head, HasSubstr("text/event-stream; charset=utf-8"));
  EXPECT_THAT(stream.head, HasSubstr("X-Accel-Buffering: no"));
  EXPECT_THAT(stream.head, HasSubstr("x-request-id: mine"));
  EXPECT_EQ(streamed_text(stream.body), expected_text("Hi\n", 8));
  EXPECT_THAT(stream.body, HasSubstr(R"("choices":[],"usage":{"prompt_tokens":3,"completion_tokens":8)"));
  EXPECT_THAT(stream.body, testing::EndsWith("data: [DONE]\n\n"));
}

TEST_F(ServiceTest, ManyChoicesKeepTheirPlaces) {
  start();
  replicas(2);
  const Answer answer =
      ask(post("/v1/completions", R"({"model":"m","prompt":["a","b"],"n":2,"max_tokens":3,"echo":true})"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json::value body = answer.value();
  ASSERT_EQ(body.at("choices").as_array().size(), 4u);
  EXPECT_EQ(body.at("choices").at(0).at("text").as_string(), "a" + expected_text("a", 3));
  EXPECT_EQ(body.at("choices").at(3).at("text").as_string(), "b" + expected_text("b", 3));
  EXPECT_EQ(body.at("usage").at("prompt_tokens").as_int64(), 2) << "each prompt is counted once";
  EXPECT_EQ(body.at("usage").at("completion_tokens").as_int64(), 4 * 3);
  const json::value chat_usage = ask(post("/v1/chat/completions", chat("Hi", 3, R"(,"n":3)"))).value().at("usage");
  EXPECT_EQ(
      json::serialize(chat_usage),
      R"({"prompt_tokens":3,"completion_tokens":9,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":0}})");
}

TEST_F(ServiceTest, AnEchoWithLogprobsTellsThePromptsToo) {
  start();
  replicas(1);
  const std::string body = R"({"model":"m","prompt":["abc","d"],"max_tokens":2,"echo":true,"logprobs":1)";
  const Answer whole = ask(post("/v1/completions", body + "}"));
  ASSERT_EQ(whole.status, 200) << whole.body;
  const json::value answer = whole.value();
  const json::value& first = answer.at("choices").at(0);
  const std::string text(first.at("text").as_string());
  EXPECT_EQ(text, "abc" + expected_text("abc", 2));
  const json::value& logprobs = first.at("logprobs");
  EXPECT_EQ(json::serialize(logprobs.at("token_logprobs")), "[null,-2.5E-1,-2.5E-1,-5E-1,-5E-1]");
  EXPECT_EQ(json::serialize(logprobs.at("text_offset")), "[0,1,2,3,4]");
  EXPECT_TRUE(logprobs.at("top_logprobs").at(0).is_null());
  EXPECT_EQ(json::serialize(logprobs.at("top_logprobs").at(1)), R"({"x":-2E0,"b":-2.5E-1})");
  EXPECT_EQ(answer.at("choices").at(1).at("logprobs").at("tokens").as_array().size(), 3u);
  const Answer stream = ask(post("/v1/completions", body + R"(,"stream":true})"));
  EXPECT_THAT(stream.body, HasSubstr(R"("tokens":["a","b","c",)"));
  // The prompt alone.
  const json::value judged =
      ask(post("/v1/completions", R"({"model":"m","prompt":"abc","max_tokens":0,"echo":true,"logprobs":0})")).value();
  EXPECT_EQ(judged.at("choices").at(0).at("text").as_string(), "abc");
  EXPECT_EQ(judged.at("choices").at(0).at("finish_reason").as_string(), "length");
  EXPECT_EQ(judged.at("choices").at(0).at("logprobs").at("tokens").as_array().size(), 3u);
  EXPECT_EQ(judged.at("usage").at("completion_tokens").as_int64(), 0);
}

// As of SentencePiece: a mark before each text, and a blank before its first word, which the text has not.
class MarkedLanguage : public ByteLanguage {
 public:
  std::vector<Token> tokenize(std::string_view text, bool add_special, bool marks) const override {
    if (!add_special) return ByteLanguage::tokenize(text, add_special, marks);
    return ByteLanguage::tokenize("\1 " + std::string(text), add_special, marks);
  }
  std::string piece(Token token) const override { return token == 1 ? "<s>" : ByteLanguage::piece(token); }
};

TEST_F(ServiceTest, OffsetsOfAnEchoAreOfItsTextWhateverStandsBeforeIt) {
  language_ = std::make_shared<MarkedLanguage>();
  start();
  replicas(1);
  const std::string body = R"({"model":"m","prompt":"abc","max_tokens":2,"echo":true,"logprobs":1)";
  const json::value choice = ask(post("/v1/completions", body + "}")).value().at("choices").at(0);
  EXPECT_EQ(json::serialize(choice.at("logprobs").at("text_offset")), "[0,0,0,1,2,3,4]");
  const std::string text(choice.at("text").as_string());
  const json::array& tokens = choice.at("logprobs").at("tokens").as_array();
  for (size_t i = 2; i < tokens.size(); ++i)
    EXPECT_EQ(text.substr(choice.at("logprobs").at("text_offset").at(i).to_number<size_t>(), 1), tokens[i].as_string());
  const Answer stream = ask(post("/v1/completions", body + R"(,"stream":true})"));
  EXPECT_THAT(stream.body, HasSubstr(R"("text_offset":[0,0,0,1,2,3])"));
  EXPECT_THAT(stream.body, HasSubstr(R"("text_offset":[4])"));
  // Where the mark is told as a token of the prompt, the text has it.
  const json::value told =
      ask(post("/v1/completions", R"({"model":"m","prompt":[1,97],"max_tokens":1,"echo":true,"logprobs":0})"))
          .value()
          .at("choices")
          .at(0);
  EXPECT_THAT(std::string(told.at("text").as_string()), StartsWith("<s>a"));
  EXPECT_EQ(json::serialize(told.at("logprobs").at("text_offset")), "[0,3,4]");
}

TEST_F(ServiceTest, ALongListIsAnsweredThoughItWouldFillEveryQueue) {
  start({}, {}, 16384, milliseconds(0));
  replicas(1);
  on_io([this] { engines_->places = 100; });
  std::string prompts = "\"a0\"";
  for (int i = 1; i < 300; ++i) prompts += ",\"a" + std::to_string(i) + "\"";
  for (const char* stream : {"false", "true"}) {
    const Answer answer = ask(post(
        "/v1/completions", R"({"model":"m","max_tokens":2,"prompt":[)" + prompts + R"(],"stream":)" + stream + "}"));
    ASSERT_EQ(answer.status, 200) << answer.body;
    if (*stream == 't') continue;
    const json::value body = answer.value();
    ASSERT_EQ(body.at("choices").as_array().size(), 300u);
    EXPECT_EQ(body.at("choices").at(299).at("text").as_string(), expected_text("a299", 2));
  }
  const Answer vectors = ask(post("/v1/embeddings", R"({"model":"m","input":[)" + prompts + "]}"));
  ASSERT_EQ(vectors.status, 200) << vectors.body;
  EXPECT_EQ(vectors.value().at("data").as_array().size(), 300u);
}

TEST_F(ServiceTest, AStreamSurvivesTheDeathOfItsEngine) {
  start();
  replicas(2);
  Client client(server_->port());
  client.send(post("/v1/chat/completions", chat("Tell me", 300, R"(,"stream":true)")));
  client.until("\r\n\r\n");
  for (int deaths = 0; deaths < 3; ++deaths) {
    client.until("data: ");
    on_io([this] {
      const std::optional<ReplicaId> victim = engines_->working();
      if (!victim) return;
      engines_->kill(*victim);
      engines_->add(*victim);
    });
  }
  std::string body = "data: " + client.until("[DONE]");
  // Chunked framing stands between the events: take what the events say.
  std::string text;
  for (size_t at = 0; (at = body.find(R"("delta":{"content":")", at)) != std::string::npos; at += 20)
    text += body.substr(at + 20, body.find('"', at + 20) - at - 20);
  EXPECT_THAT(expected_text("Tell me\n", 300), testing::EndsWith(text));
  EXPECT_GT(text.size(), 200u);
  EXPECT_EQ(on_io([this] { return model_->dispatcher.router().moves(); }), 3u);
}

TEST_F(ServiceTest, AWholeAnswerIsTheSameOverDeaths) {
  start();
  replicas(3);
  Client client(server_->port());
  client.send(post("/v1/chat/completions", chat("Tell me", 200)));
  for (int deaths = 0; deaths < 3; ++deaths) {
    wait_for([this] { return engines_->working().has_value(); }, "an engine works");
    on_io([this] {
      const std::optional<ReplicaId> victim = engines_->working();
      if (victim) engines_->kill(*victim), engines_->add(*victim);
    });
  }
  EXPECT_EQ(client.answer().value().at("choices").at(0).at("message").at("content").as_string(),
            expected_text("Tell me\n", 200));
}

TEST_F(ServiceTest, BeforeItIsReadyItSaysSo) {
  start();
  EXPECT_EQ(ask(get("/health")).status, 200);
  EXPECT_EQ(ask(get("/ready")).status, 503);
  const Answer answer = ask(post("/v1/chat/completions", chat("Hi", 1, R"(,"stream":true)")));
  EXPECT_EQ(answer.status, 503);
  EXPECT_THAT(answer.head, HasSubstr("Retry-After: "));
  EXPECT_EQ(answer.value().at("error").at("type").as_string(), "unavailable_error");
  replicas(1);
  EXPECT_EQ(ask(get("/ready")).status, 200);
}

TEST_F(ServiceTest, AModelWhoseFilesAreStillFetchedIsSaidToLoad) {
  start();
  on_io([this] { service_->expect_model("large", 0.425); });
  for (const char* path : {"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/tokenize"}) {
    const Answer answer =
        ask(post(path, R"({"model":"large","prompt":"a","input":"a","messages":[{"role":"user","content":"Hi"}]})"));
    EXPECT_EQ(answer.status, 503) << "a 404 is not asked again: " << answer.body;
    EXPECT_EQ(answer.value().at("error").at("message").as_string(), "Loading model: 42 %.");
    EXPECT_THAT(answer.head, HasSubstr("Retry-After: 2\r\n"));
  }
  EXPECT_THAT(ask(get("/ready")).body, HasSubstr(R"("large":[{"id":0,"state":"fetching","progress":0.425}])"));
  on_io([this] { service_->retire_model("large"); });
  EXPECT_EQ(ask(post("/v1/completions", R"({"model":"large","prompt":"a"})")).status, 404);
}

// Reads a long text until it is let go.
class SlowLanguage : public ByteLanguage {
 public:
  PromptTokens tokenize_prompt(std::string_view text, bool marks) const override {
    if (text.size() < 100'000) return ByteLanguage::tokenize_prompt(text, marks);
    ++reading;
    let_go.get_future().wait();
    return {{}, 25'000};
  }
  mutable std::atomic<int> reading = 0;
  mutable std::promise<void> let_go;
};

TEST_F(ServiceTest, NobodyWaitsBehindALongText) {
  const auto slow = std::make_shared<SlowLanguage>();
  language_ = slow;
  start();
  replicas(1);
  Client longer(server_->port());
  longer.send(post("/v1/chat/completions", chat(std::string(200'000, 'a'), 1)));
  wait_for([&slow] { return slow->reading == 1; }, "the long one is being read");
  EXPECT_EQ(ask(post("/v1/chat/completions", chat("Hi", 1))).status, 200);
  EXPECT_EQ(ask(post("/v1/completions", R"({"model":"m","prompt":"a"})")).status, 200);
  EXPECT_EQ(ask(post("/tokenize", R"({"prompt":"a"})")).status, 200);
  slow->let_go.set_value();
  const Answer answer = longer.answer();
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.value().at("error").at("code").as_string(), "context_length_exceeded");
  EXPECT_THAT(answer.body, HasSubstr("4096 tokens. However, your prompt contains at least 25000 tokens"));
}

TEST_F(ServiceTest, AFullQueueIs429) {
  start();
  replicas(2);
  on_io([this] { engines_->full = true; });
  const Answer answer = ask(post("/v1/chat/completions", chat("Hi", 1)));
  EXPECT_EQ(answer.status, 429);
  EXPECT_THAT(answer.head, HasSubstr("Retry-After: 3\r\n"));
  EXPECT_EQ(answer.value().at("error").at("code").as_string(), "rate_limit_exceeded");
}

TEST_F(ServiceTest, ErrorsHaveStatusAndCode) {
  start();
  replicas(1);
  const std::string long_prompt(5000, 'x');
  const struct {
    std::string request;
    int status;
    const char* code;
  } table[] = {
      {post("/v1/chat/completions", R"({"model":"other","messages":[{"role":"user","content":"Hi"}]})"), 404,
       R"("code":"model_not_found")"},
      {post("/v1/chat/completions", "{"), 400, "parse the JSON"},
      {post("/v1/chat/completions", chat(long_prompt, 1)), 400, R"("code":"context_length_exceeded")"},
      {post("/v1/chat/completions", chat("Hi", 1, R"(,"logit_bias":{"256":1})")), 400, R"("param":"logit_bias")"},
      {post("/v1/chat/completions", R"({"model":"m","messages":[{"role":"tool","tool_call_id":"1","content":"x"}]})"),
       400, R"("param":"messages")"},
      {post("/v1/completions", R"({"model":"m","prompt":[300]})"), 400, R"("code":"invalid_value")"},
      {post("/v1/completions", R"({"model":"m","prompt":""})"), 400, R"("code":"invalid_value")"},
      {get("/v1/nothing"), 404, R"("code":"unknown_url")"},
      {get("/v1/chat/completions"), 405, R"("code":"method_not_allowed")"},
      {get("/v1/models/other"), 404, R"("code":"model_not_found")"},
      {"GET /health HTTP/1.1\r\n\r\n", 400, "Host header"},
      {"GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403, "localhost alone"},
      {get("/health", "Origin: https://evil.example\r\n"), 403, "other sites"},
      {"NONSENSE\r\n\r\n", 400, "not HTTP"},
  };
  for (const auto& row : table) {
    const Answer answer = ask(row.request);
    EXPECT_EQ(answer.status, row.status) << row.request.substr(0, 120) << answer.body;
    EXPECT_THAT(answer.body, HasSubstr(row.code)) << row.request.substr(0, 120);
    EXPECT_THAT(answer.body, StartsWith(R"({"error":{"message":)")) << row.request.substr(0, 120);
  }
}

TEST_F(ServiceTest, SmallEndpointsAnswer) {
  start();
  replicas(1);
  EXPECT_EQ(ask(get("/v1/models")).value().at("data").at(0).at("id").as_string(), "m");
  EXPECT_EQ(ask(get("/v1/models/m")).value().at("max_model_len").as_int64(), 4096);
  EXPECT_EQ(json::serialize(ask(post("/tokenize", R"({"prompt":"ab"})")).value().at("tokens")), "[97,98]");
  EXPECT_EQ(ask(post("/detokenize", R"({"tokens":[97,98]})")).value().at("content").as_string(), "ab");
  const Answer vectors = ask(post("/v1/embeddings", R"({"model":"m","input":["a","b"]})"));
  EXPECT_EQ(vectors.value().at("data").at(1).at("embedding").at(0).as_double(), 0.5);
  EXPECT_THAT(ask(get("/metrics")).body, HasSubstr("vllm:num_requests_running{model_name=\"m\",engine=\"1\"} 1\n"));
}

// Of a sum or count in /metrics.
double metric(const std::string& text, const std::string& name) {
  const size_t line = text.find("\n" + name + "{");
  return line == std::string::npos ? -1 : std::stod(text.substr(text.find("} ", line) + 2));
}

TEST_F(ServiceTest, TellsWhatItTookItself) {
  start({}, {}, 16384, milliseconds(20));
  replicas(1);
  EXPECT_EQ(ask(post("/v1/chat/completions", chat("Hi", 10))).status, 200);
  EXPECT_EQ(ask(post("/v1/chat/completions", chat("Hi", 10, R"(,"stream":true)"))).status, 200);
  // The second one waits for the first one's answer, which is not the gateway's doing.
  Client client(server_->port());
  client.send(post("/v1/chat/completions", chat("Hi", 10)) + post("/v1/chat/completions", chat("Hi", 10)));
  client.answer(), client.answer();
  const std::string text = ask(get("/metrics")).body;
  EXPECT_EQ(metric(text, "rayo:gateway_time_seconds_count"), 4);
  EXPECT_GT(metric(text, "rayo:gateway_time_seconds_sum"), 0);
  EXPECT_LT(metric(text, "rayo:gateway_time_seconds_sum"), metric(text, "vllm:e2e_request_latency_seconds_sum") / 4);
  EXPECT_GE(metric(text, "vllm:e2e_request_latency_seconds_sum"), 4 * 10 * 0.02);
}

TEST_F(ServiceTest, AModelIsFoundByANameThatAPathCannotHold) {
  start();
  replicas(1);
  const auto other =
      on_io([this] { return service_->add_model("org/m 2", std::make_shared<ByteLanguage>(), *engines_); });
  for (const char* name : {"org%2Fm%202", "org%2fm%202", "org/m%202"})
    EXPECT_EQ(ask(get(std::string("/v1/models/") + name)).value().at("id").as_string(), "org/m 2") << name;
  for (const char* name : {"org%2", "%", "%zz", "%2F%"})
    EXPECT_EQ(ask(get(std::string("/v1/models/") + name)).status, 404) << name;
}

TEST_F(ServiceTest, KeysAreAsked) {
  start({.loopback = false, .api_keys = {"secret", "other"}});
  replicas(1);
  EXPECT_EQ(ask(get("/v1/models")).status, 401);
  EXPECT_EQ(ask(get("/v1/models", "Authorization: Bearer wrong!\r\n")).value().at("error").at("code").as_string(),
            "invalid_api_key");
  EXPECT_EQ(ask(get("/v1/models", "Authorization: Bearer other\r\n")).status, 200);
  EXPECT_EQ(ask(get("/v1/models", "X-Api-Key: secret\r\n")).status, 200);
  EXPECT_EQ(ask(get("/health")).status, 200);
  const Answer preflight =
      ask("OPTIONS /v1/models HTTP/1.1\r\nHost: x\r\nOrigin: https://a.example\r\n"
          "Access-Control-Request-Headers: authorization\r\n\r\n");
  EXPECT_EQ(preflight.status, 204);
  EXPECT_THAT(preflight.head, HasSubstr("Access-Control-Allow-Origin: *"));
}

TEST_F(ServiceTest, TurnsAreTakenOverKeysThatAreAskedFor) {
  start({.loopback = false, .api_keys = {"secret", "other"}});
  replicas(1);
  const auto client_of = [this](const std::string& headers) {
    EXPECT_EQ(ask(post("/v1/chat/completions", chat("Hi", 1), headers)).status, 200);
    return on_io([this] { return engines_->last_client; });
  };
  const std::string first = client_of("Authorization: Bearer secret\r\n");
  EXPECT_EQ(client_of("X-Api-Key: secret\r\n"), first) << "one key, two names of it";
  EXPECT_NE(client_of("Authorization: Bearer other\r\n"), first);
}

TEST_F(ServiceTest, TurnsAreTakenOverAddressesWhereNoKeyIsAskedFor) {
  start();
  replicas(1);
  for (const char* made_up : {"", "Authorization: Bearer 1\r\n", "X-Api-Key: 2\r\n"}) {
    EXPECT_EQ(ask(post("/v1/chat/completions", chat("Hi", 1), made_up)).status, 200);
    EXPECT_EQ(on_io([this] { return engines_->last_client; }), "127.0.0.1") << made_up;
  }
}

TEST_F(ServiceTest, ClosingFinishesWhatRuns) {
  start();
  replicas(1);
  Client client(server_->port());
  client.send(post("/v1/chat/completions", chat("Hi", 100)));
  wait_for([this] { return engines_->working().has_value(); }, "the engine works");
  on_io([this] { service_->close(); });
  EXPECT_EQ(ask(post("/v1/chat/completions", chat("Hi", 1))).status, 503);
  EXPECT_EQ(client.answer().value().at("usage").at("completion_tokens").as_int64(), 100);
}

TEST_F(ServiceTest, AModelThatIsAddedTakesNothingFromTheOthers) {
  start();
  replicas(1);
  EXPECT_EQ(ask(get("/ready")).status, 200);
  on_io([this] { service_->add_model("loading", std::make_shared<ByteLanguage>(), *engines_); });
  EXPECT_EQ(ask(get("/ready")).status, 200) << "a balancer would send nobody any more";
  EXPECT_EQ(ask(get("/v1/models")).value().at("data").as_array().size(), 2u);
  EXPECT_EQ(
      ask(post("/v1/chat/completions", R"({"model":"loading","messages":[{"role":"user","content":"Hi"}]})")).status,
      503);
  EXPECT_EQ(ask(post("/v1/chat/completions", chat("Hi", 1))).status, 200);
  EXPECT_EQ(ask(post("/tokenize", R"({"prompt":"Hi"})")).status, 400) << "whose tokens?";
}

TEST_F(ServiceTest, ARetiredModelFinishesWhatRunsAndIsUnknown) {
  start();
  replicas(1);
  Client client(server_->port());
  client.send(post("/v1/chat/completions", chat("Hi", 100)));
  wait_for([this] { return engines_->working().has_value(); }, "the engine works");
  on_io([this] { service_->retire_model("m"); });
  EXPECT_EQ(ask(post("/v1/chat/completions", chat("Hi", 1))).status, 404);
  EXPECT_EQ(ask(get("/v1/models")).value().at("data").as_array().size(), 0u);
  EXPECT_EQ(on_io([this] { return service_->flights(); }), 1u);
  EXPECT_EQ(client.answer().value().at("usage").at("completion_tokens").as_int64(), 100);
  wait_for([this] { return service_->flights() == 0; }, "its client has everything");
  on_io([this] { service_->remove_model("m"); });
}

}  // namespace
}  // namespace serving::gateway
