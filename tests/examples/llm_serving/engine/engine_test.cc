// The engine with the real model. A client loses if these fail: its text depends on its neighbours, a replay writes
// another story, its place is taken by somebody who left, or a schema is not kept.
#include "examples/llm_serving/engine/engine.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <gtest/gtest.h>

#include "examples/llm_serving/engine/chat_template.h"
#include "examples/llm_serving/engine/grammar.h"
#include "tests/examples/llm_serving/engine/engine_harness.h"

namespace serving {
namespace {

const std::vector<std::string>& prompts() {
  static const std::vector<std::string> all = {"The capital of France is",
                                               "Once upon a time there was a little fox who",
                                               "def fibonacci(n):\n",
                                               "The three laws of thermodynamics are:\n1.",
                                               "Water boils at",
                                               "My favourite recipe for bread begins with",
                                               "In the year 1969, Neil Armstrong",
                                               "The difference between a list and a tuple in Python is"};
  return all;
}

EngineOptions small_options() {
  EngineOptions options;
  options.max_context = 1024;
  options.kv_tokens = 4096;
  options.parallel = 8;
  options.chunk_tokens = 64;
  return options;
}

EngineHarness& shared() {
  static EngineHarness harness(small_options());
  return harness;
}

Request with_leads(Request request) {
  request.sampling.logprobs = request.sampling.temperature > 0 ? 20 : 2;
  return request;
}

TEST(Engine, ATextDoesNotDependOnItsNeighbours) {
  EngineHarness first(small_options()), second(small_options());
  std::vector<Answer> alone;
  for (const std::string& prompt : prompts()) alone.push_back(first.run(with_leads(first.request(prompt, 24))));
  std::vector<uint64_t> ids;
  for (const std::string& prompt : prompts()) {
    const Request request = with_leads(second.request(prompt, 24));
    ids.push_back(request.id);
    ASSERT_EQ(second.submit(request).verdict, Admission::Verdict::kTaken);
  }
  int ties = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    const Answer answer = second.wait(ids[i]);
    EXPECT_EQ(answer.finish, alone[i].finish);
    ties += expect_same(answer.tokens, alone[i], 0, prompts()[i]);
  }
  std::printf("%d of %zu part at a near tie\n", ties, ids.size());
  EXPECT_TRUE(alone[0].text.find("Paris") != std::string::npos) << alone[0].text;
}

TEST(Engine, ThePiecesOfTheTextAreTheTokensText) {
  const Answer answer = shared().run(shared().request("Translate to Japanese: good morning", 16));
  EXPECT_EQ(answer.text, test_tokenizer().decode(answer.tokens));
  EXPECT_EQ(answer.finish, Finish::kLength);
  EXPECT_EQ(answer.tokens.size(), 16u);
}

class EngineReplay : public testing::TestWithParam<int> {};

// As if the engine had died after `cut` tokens: another one computes prompt and tokens anew, the rest of the text is the
// same, and no piece comes twice.
TEST_P(EngineReplay, GoesOnWithTheSameText) {
  EngineHarness dies(small_options());
  Request request = dies.request("Write a haiku about the sea.\n", 24);
  switch (GetParam()) {
    case 0:
      break;
    case 1:
      request.sampling.temperature = 0.9f;
      request.sampling.seed = 1234;
      break;
    case 2:
      request.sampling.temperature = 1.0f;
      request.sampling.seed = 99;
      request.sampling.top_p = 0.9f;
      break;
    case 3:
      request.sampling.temperature = 0.8f;
      request.sampling.grammar =
          *schema_to_grammar(R"({"type":"object","properties":{"line":{"type":"string"}},"required":["line"]})");
      break;
    case 4:
      request.stop = {"the w", "zzz"};
      break;
  }
  const Answer whole = dies.run(with_leads(request));
  ASSERT_FALSE(whole.tokens.empty());
  for (size_t cut : {whole.tokens.size() / 3, whole.tokens.size() - 1}) {
    if (cut == 0 || cut >= whole.tokens.size()) continue;
    EngineHarness lives(small_options());
    Request again = request;
    again.replayed.assign(whole.tokens.begin(), whole.tokens.begin() + static_cast<ptrdiff_t>(cut));
    std::string shown;
    for (size_t i = 0; i < cut; ++i) shown += whole.events[i].text;
    const Answer rest = lives.run(again);
    if (expect_same(rest.tokens, whole, cut)) continue;  // from a near tie on it may be another story
    EXPECT_EQ(shown + rest.text, whole.text) << "cut at " << cut;
    EXPECT_EQ(rest.finish, whole.finish);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, EngineReplay, testing::Values(0, 1, 2, 3, 4));

TEST(Engine, TheSameSeedWritesTheSameAndAnotherSeedDoesNot) {
  Request request = shared().request("Once upon a time", 24, 1.0f);
  request.sampling.seed = 5;
  const Answer first = shared().run(request);
  request.id = shared().request("", 0).id;
  EXPECT_EQ(shared().run(request).tokens, first.tokens);
  request.id = shared().request("", 0).id;
  request.sampling.seed = 6;
  EXPECT_NE(shared().run(request).tokens, first.tokens);
}

TEST(Engine, APromptsTokensAreAsLikelyAsTheyWereWhenTheyWereWritten) {
  Request request = shared().request("The three laws of thermodynamics are:\n1.", 60);
  request.sampling.logprobs = 2;
  const Answer written = shared().run(request);
  Request judged = shared().request("", 1);
  judged.prompt = request.prompt;
  judged.prompt.insert(judged.prompt.end(), written.tokens.begin(), written.tokens.end());
  judged.sampling.logprobs = 2;
  judged.prompt_logprobs = true;
  for (int again = 0; again < 2; ++again) {  // the second time the cache holds all of it
    judged.id += 1'000'000;
    const Answer answer = shared().run(judged);
    ASSERT_EQ(answer.events.size(), 1u);
    const std::vector<Likelihood>& prompt = answer.events[0].prompt;
    ASSERT_EQ(prompt.size(), judged.prompt.size() - 1);
    for (size_t i = 0; i < written.tokens.size(); ++i) {
      const Likelihood& told = prompt[request.prompt.size() - 1 + i];
      EXPECT_NEAR(told.logprob, written.events[i].logprob, 0.75) << i;  // docs/decisions/0004
      ASSERT_EQ(told.top.size(), 2u);
    }
  }
}

TEST(Engine, AStopStringEndsTheAnswerAndIsNotInIt) {
  Request request = shared().request("Count: one, two, three, four,", 40);
  const Answer whole = shared().run(request);
  ASSERT_GT(whole.text.size(), 12u);
  const std::string stop = whole.text.substr(8, 3);
  request.id = shared().request("", 0).id;
  request.stop = {stop};
  const Answer answer = shared().run(request);
  EXPECT_EQ(answer.finish, Finish::kStop);
  EXPECT_EQ(answer.text, whole.text.substr(0, whole.text.find(stop)));
}

TEST(Engine, AnAnswerKeepsItsSchema) {
  const Result<ChatTemplate> chat = ChatTemplate::load(test_tokenizer());
  ASSERT_TRUE(chat.ok());
  ChatRequest asked;
  asked.messages = R"([{"role":"user","content":"Give me a person as JSON."}])";
  asked.json_schema =
      R"({"type":"object","properties":{"name":{"type":"string","maxLength":12},"age":{"type":"integer","minimum":0,
    "maximum":120}},"required":["name","age"],"additionalProperties":false})";
  const Result<ChatPrompt> prompt = chat->apply(asked);
  ASSERT_TRUE(prompt.ok()) << prompt.problem().what;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    Request request = shared().request(prompt->text, 200, 1.0f);
    request.sampling.seed = seed;
    request.sampling.grammar = prompt->grammar;
    request.sampling.grammar_prefix = prompt->grammar_prefix;
    const Answer answer = shared().run(request);
    EXPECT_EQ(answer.finish, Finish::kStop) << answer.text;
    const std::string json = answer.text.substr(0, answer.text.find_last_not_of(" \n\t") + 1);
    EXPECT_TRUE(json.starts_with("{") && json.ends_with("}")) << json;
    EXPECT_TRUE(json.find("\"name\"") != std::string::npos && json.find("\"age\"") != std::string::npos) << json;
  }
}

TEST(Engine, ARequiredToolIsCalled) {
  const Result<ChatTemplate> chat = ChatTemplate::load(test_tokenizer());
  ASSERT_TRUE(chat.ok());
  ChatRequest asked;
  asked.messages = R"([{"role":"user","content":"What is the weather in Rome?"}])";
  asked.tools = R"([{"type":"function","function":{"name":"get_weather","parameters":{"type":"object",
    "properties":{"city":{"type":"string","maxLength":20}},"required":["city"]}}}])";
  asked.tool_choice = "required";
  asked.parallel_tool_calls = false;
  const Result<ChatPrompt> prompt = chat->apply(asked);
  ASSERT_TRUE(prompt.ok()) << prompt.problem().what;
  Request request = shared().request(prompt->text, 200);
  request.sampling.grammar = prompt->grammar;
  request.sampling.grammar_prefix = prompt->grammar_prefix;
  request.shown = prompt->shown;
  const Answer answer = shared().run(request);
  EXPECT_EQ(answer.finish, Finish::kStop) << answer.text;
  const Result<ChatAnswer> parsed = ChatTemplate::parse(*prompt, answer.text, false);
  ASSERT_TRUE(parsed.ok()) << parsed.problem().what << answer.text;
  ASSERT_EQ(parsed->tool_calls.size(), 1u) << answer.text;
  EXPECT_EQ(parsed->tool_calls[0].name, "get_weather");
  EXPECT_NE(parsed->tool_calls[0].arguments.find("\"city\""), std::string::npos) << parsed->tool_calls[0].arguments;
}

TEST(Engine, ASharedPromptIsComputedOnce) {
  std::string system;
  for (int i = 0; i < 40; ++i) system += "Rule " + std::to_string(i) + ": be brief. ";
  const Answer first = shared().run(shared().request(system + "Question: why?", 4));
  EXPECT_LT(first.cached_tokens, 20);
  const Request second = shared().request(system + "Question: when?", 4);
  const Answer answer = shared().run(second);
  EXPECT_GE(answer.cached_tokens, static_cast<int32_t>(second.prompt.size()) - 6) << "of " << second.prompt.size();
}

TEST(Engine, ACancelledRequestEndsAndItsPlaceIsFree) {
  const Request request = shared().request("The story of my life:", 900);
  shared().submit(request);
  shared().wait_tokens(request.id, 3);
  shared().engine().cancel(EngineHarness::kGateway, request.id);
  const Answer answer = shared().wait(request.id);
  EXPECT_EQ(answer.finish, Finish::kCancelled);
  EXPECT_LT(answer.tokens.size(), 100u);
  EXPECT_EQ(shared().engine().status().running, 0);
  shared().engine().cancel(EngineHarness::kGateway, request.id);  // and again: nothing
}

TEST(Engine, WhatCannotBeAnsweredIsRefusedWithTheReason) {
  Request longer = shared().request("x", 5);
  longer.prompt.assign(1024, 5);
  Admission admission = shared().submit(longer);
  EXPECT_EQ(admission.verdict, Admission::Verdict::kNeverFits);
  EXPECT_NE(admission.reason.find("1024"), std::string::npos) << admission.reason;
  Request unknown = shared().request("x", 5);
  unknown.prompt.push_back(1'000'000);
  EXPECT_EQ(shared().submit(unknown).verdict, Admission::Verdict::kInvalid);
  Request twice = shared().request("Tell me a very long story.", 500);
  EXPECT_EQ(shared().submit(twice).verdict, Admission::Verdict::kTaken);
  EXPECT_EQ(shared().submit(twice).verdict, Admission::Verdict::kInvalid);
  shared().engine().cancel(EngineHarness::kGateway, twice.id);
  shared().wait(twice.id);
}

TEST(Engine, AGrammarIsReadAfterTheRequestWasTaken) {
  Request wrong = shared().request("x", 5);
  wrong.sampling.grammar = "root ::= (";
  const Answer refused = shared().run(wrong);
  EXPECT_EQ(refused.finish, Finish::kError);
  EXPECT_NE(refused.error.find("the grammar cannot be read"), std::string::npos) << refused.error;
  // Two that take a while to read: neither is waited for where one leaves at once, and its neighbours go on.
  std::string slow = "root ::= (\"none\"";
  for (int i = 0; i < 40; ++i) slow += " | \"word" + std::to_string(i) + "\"";
  slow += ") [a-z0-9 ]*";
  Request leaves = shared().request("x", 5), stays = shared().request("Once upon", 5),
          plain = shared().request("Hi", 5);
  leaves.sampling.grammar = stays.sampling.grammar = slow;
  EXPECT_EQ(shared().submit(stays).verdict, Admission::Verdict::kTaken);
  EXPECT_EQ(shared().submit(leaves).verdict, Admission::Verdict::kTaken);
  shared().engine().cancel(EngineHarness::kGateway, leaves.id);
  EXPECT_EQ(shared().wait(leaves.id).finish, Finish::kCancelled);
  EXPECT_EQ(shared().run(plain).tokens.size(), 5u);
  EXPECT_EQ(shared().wait(stays.id).error, "");
  EXPECT_EQ(shared().engine().status().waiting, 0);
}

TEST(Engine, ALongPromptStallsTheOthersByNoMoreThanAChunk) {
  const Request talker = shared().request("Numbers: 1 2 3 4 5", 40);
  shared().submit(talker);
  shared().wait_tokens(talker.id, 2);
  Request prompt = shared().request("", 2);
  for (int i = 0; i < 600; ++i) prompt.prompt.push_back(100 + i);
  shared().submit(prompt);
  shared().wait(prompt.id);
  shared().wait(talker.id);
  // Steps between two tokens of the talker: one, whatever the prompt does (600 tokens are ten chunks).
  size_t last = 0, tokens_meanwhile = 0, prompts_first = 0;
  const auto order = shared().order();
  for (const auto& [id, step] : order) {
    if (id == prompt.id && prompts_first == 0) prompts_first = step;
  }
  for (const auto& [id, step] : order) {
    if (id != talker.id) continue;
    EXPECT_TRUE(last == 0 || step - last <= 1) << step << " after " << last;
    last = step;
    tokens_meanwhile += step < prompts_first;
  }
  EXPECT_GE(tokens_meanwhile, 9u);
}

TEST(Engine, AFullCacheCostsTimeAndNoAnswer) {
  EngineOptions options = small_options();
  options.max_context = 128;
  options.kv_tokens = 256;
  options.parallel = 6;
  EngineHarness tight(options);
  // Texts of which the model is sure: what gave way is computed again in other places of the cache, which moves logits.
  const std::vector<std::string> sure = {"1, 2, 3, 4, 5, 6, 7,", "2, 4, 6, 8, 10,", "10, 20, 30, 40, 50,"};
  std::vector<Answer> alone;
  std::vector<uint64_t> ids;
  for (const std::string& prompt : sure) alone.push_back(tight.run(with_leads(tight.request(prompt, 60))));
  for (size_t i = 0; i < 6; ++i) {
    const Request request = with_leads(tight.request(sure[i % sure.size()], 60));
    ids.push_back(request.id);
    ASSERT_EQ(tight.submit(request).verdict, Admission::Verdict::kTaken);
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    const Answer answer = tight.wait(ids[i]);
    EXPECT_EQ(answer.error, "");
    EXPECT_FALSE(expect_same(answer.tokens, alone[i % sure.size()], 0, sure[i % sure.size()]));
  }
  EXPECT_GT(tight.engine().status().preemptions, 0u);
  EXPECT_LE(tight.engine().status().kv_used_tokens, 256);
}

TEST(Engine, MoreThanTheQueueHoldsIsTurnedAwayForAWhile) {
  EngineOptions options = small_options();
  options.parallel = 1;
  options.queue_limit = 2;
  EngineHarness busy(options);
  std::vector<Request> taken;
  Admission admission;
  for (int i = 0; i < 10 && admission.verdict == Admission::Verdict::kTaken; ++i) {
    const Request request = busy.request("A long tale:", 300);
    admission = busy.submit(request);
    if (admission.verdict == Admission::Verdict::kTaken) taken.push_back(request);
  }
  EXPECT_EQ(admission.verdict, Admission::Verdict::kFull);
  EXPECT_GE(admission.retry_after_s, 1);
  EXPECT_EQ(taken.size(), 3u);
  for (const Request& request : taken) busy.engine().cancel(EngineHarness::kGateway, request.id);
  for (const Request& request : taken) EXPECT_EQ(busy.wait(request.id).finish, Finish::kCancelled);
}

TEST(Engine, AnEmbeddingIsOfLengthOneAndTellsLikeFromUnlike) {
  const auto embed = [&](const std::string& text) {
    Request request = shared().request(text, 0);
    request.embedding = true;
    return shared().run(request);
  };
  const std::vector<float> cat = embed("The cat sleeps on the sofa.").embedding;
  const std::vector<float> kitten = embed("A kitten is sleeping on the couch.").embedding;
  const std::vector<float> tax = embed("Quarterly corporate tax returns 2021").embedding;
  ASSERT_EQ(cat.size(), 576u);
  const auto dot = [](const std::vector<float>& a, const std::vector<float>& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * b[i];
    return sum;
  };
  EXPECT_NEAR(dot(cat, cat), 1, 1e-5);
  EXPECT_GT(dot(cat, kitten), dot(cat, tax));
  // A long one comes in many steps, between the steps of others.
  std::string many;
  for (int i = 0; i < 60; ++i) many += "The cat sleeps on the sofa. ";
  const Request talker = shared().request("Numbers: 1 2 3", 60);
  shared().submit(talker);
  EXPECT_GT(dot(cat, embed(many).embedding), 0.8);
  EXPECT_EQ(shared().wait(talker.id).tokens.size(), 60u);
}

TEST(Engine, ItsStatusAddsUp) {
  EngineOptions options = small_options();
  options.threads = 2;
  EngineHarness harness(options);
  const Request request = harness.request("One two three", 5);
  harness.run(request);
  const EngineStatus status = harness.engine().status();
  EXPECT_EQ(status.state, "ready");
  EXPECT_EQ(status.prompt_tokens, request.prompt.size());
  EXPECT_EQ(status.output_tokens, 5u);
  EXPECT_EQ(status.kv_tokens, 4096);
  EXPECT_EQ(status.context_tokens, 1024);
  EXPECT_EQ(status.kv_used_tokens, static_cast<int32_t>(request.prompt.size()) + 4);
  EXPECT_TRUE(status.cpu_variant.starts_with("x86-64-v")) << status.cpu_variant;
}

TEST(Engine, AGatewayThatIsGoneLeavesNothingBehind) {
  const Request request = shared().request("An endless poem:", 900);
  shared().submit(request);
  shared().wait_tokens(request.id, 2);
  shared().engine().forget(EngineHarness::kGateway);
  EXPECT_EQ(shared().engine().status().running, 0);
  EXPECT_EQ(shared().run(shared().request("Hello", 2)).tokens.size(), 2u);
}

}  // namespace
}  // namespace serving
