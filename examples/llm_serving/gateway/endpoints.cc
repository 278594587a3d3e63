// The handlers that need a model: chat, completions, embeddings, tokens.
#include <ctime>
#include <optional>
#include <random>

#include "examples/llm_serving/gateway/json_text.h"
#include "examples/llm_serving/gateway/production.h"
#include "examples/llm_serving/gateway/service.h"

namespace serving::gateway {
namespace {

namespace json = boost::json;

constexpr std::string_view kJson = "application/json";
constexpr size_t kLongBody = 64 << 10;  // its tokens take some 80 ms: others wait no longer

uint64_t random_seed() {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  return random();
}

std::string answer_id(const char* prefix, const Exchange& exchange) {
  const std::string& id = exchange.id();
  return prefix + (id.starts_with("req_") ? id.substr(4) : id);
}

// A request of one choice, cut to the context.
Request request_of(const Exchange& exchange, const Model& model, const Generation& generation,
                   std::vector<Token> prompt) {
  const int64_t context = model.language->context_tokens();
  const auto length = static_cast<int64_t>(prompt.size());
  if (prompt.empty()) throw bad_request("The prompt has no tokens.", "prompt", "invalid_value");
  if (length >= context) throw context_length_exceeded(context, length, generation.max_tokens.value_or(0));
  Request request;
  request.client = exchange.client();
  request.prompt = std::move(prompt);
  // A prompt that is only judged has one, which nobody is told.
  request.max_tokens =
      static_cast<int32_t>(std::clamp<int64_t>(generation.max_tokens.value_or(context), 1, context - length));
  request.stop = generation.stop;
  request.sampling = generation.sampling;
  if (!generation.has_seed) request.sampling.seed = random_seed();  // a replay draws the same numbers
  for (const LogitBias& bias : request.sampling.logit_bias) {
    if (bias.token >= model.language->vocabulary())
      throw bad_request("Invalid key in 'logit_bias': the model has " + std::to_string(model.language->vocabulary()) +
                            " tokens, and " + std::to_string(bias.token) + " is none of them.",
                        "logit_bias", "invalid_value");
  }
  return request;
}

// Of any thread.
std::vector<Token> prompt_tokens(const Model& model, std::string_view text, bool marks) {
  Language::PromptTokens prompt = model.language->tokenize_prompt(text, marks);
  if (prompt.at_least > 0) throw context_far_exceeded(model.language->context_tokens(), prompt.at_least);
  return std::move(prompt.tokens);
}

bool wants_grammar(const ChatRequest& request) {
  return !request.tools.empty() || request.generation.format.kind != OutputFormat::Kind::kText;
}

}  // namespace

// A long body takes its time to read, too.
template <class Body>
Body Service::read(Exchange& exchange, Body (*parse)(std::string_view)) {
  const std::string& text = exchange.request().body();
  if (text.size() <= kLongBody) return parse(text);
  std::optional<Body> body;
  exchange.run_on(long_texts_, [&] { body = parse(text); });
  return std::move(*body);
}

std::vector<Token> Service::tokens_of(Exchange& exchange, const Model& model, const Prompt& prompt) {
  if (const auto* tokens = std::get_if<std::vector<Token>>(&prompt)) {
    for (const Token token : *tokens) {
      if (token >= model.language->vocabulary())
        throw bad_request("Token " + std::to_string(token) + " is out of the model's vocabulary of " +
                              std::to_string(model.language->vocabulary()) + ".",
                          "prompt", "invalid_value");
    }
    return *tokens;
  }
  std::vector<Token> tokens;
  exchange.run_on(pool_for(exchange), [&] { tokens = prompt_tokens(model, std::get<std::string>(prompt), false); });
  return tokens;
}

boost::asio::thread_pool& Service::pool_for(const Exchange& exchange, bool grammar) {
  if (exchange.request().body().size() > kLongBody) return long_texts_;
  return grammar ? grammars_ : workbench_;
}

void Service::chat(Exchange& exchange) {
  const ChatRequest request = read(exchange, parse_chat);
  const std::shared_ptr<Model> named = this->model(request.generation.model);
  Model& model = *named;
  RenderedChat rendered;
  std::vector<Token> prompt;
  exchange.run_on(pool_for(exchange, wants_grammar(request)), [&] {
    rendered = model.language->render(request);
    prompt = prompt_tokens(model, rendered.prompt, true);
  });
  Request one = request_of(exchange, model, request.generation, std::move(prompt));
  one.sampling.grammar = std::move(rendered.grammar);
  one.sampling.grammar_prefix = std::move(rendered.grammar_prefix);
  one.sampling.grammar_triggers = std::move(rendered.grammar_triggers);
  one.sampling.grammar_trigger_tokens = std::move(rendered.grammar_trigger_tokens);
  one.shown = std::move(rendered.shown);
  one.stop.insert(one.stop.end(), rendered.stop.begin(), rendered.stop.end());
  Answers answers(Answers::Api::kChat, answer_id("chatcmpl-", exchange), std::time(nullptr), model.name);
  Production production(exchange, model, std::move(answers), request.generation, options_.ping);
  production.count_prompt(one.prompt.size());
  for (int32_t i = 0; i < request.generation.n; ++i) {
    Request choice = one;
    choice.sampling.seed += static_cast<uint64_t>(i);
    production.add(std::move(choice), rendered.reader ? rendered.reader() : nullptr);
  }
  production.run();
}

void Service::completion(Exchange& exchange) {
  const CompletionRequest request = read(exchange, parse_completion);
  const std::shared_ptr<Model> named = this->model(request.generation.model);
  Model& model = *named;
  std::string grammar;
  exchange.run_on(pool_for(exchange, request.generation.format.kind != OutputFormat::Kind::kText),
                  [&] { grammar = model.language->grammar(request.generation.format); });
  std::vector<std::pair<Request, std::string>> choices;
  size_t counted = 0;  // tokens of prompts
  for (const Prompt& prompt : request.prompts) {
    Request one = request_of(exchange, model, request.generation, tokens_of(exchange, model, prompt));
    counted += one.prompt.size();
    one.sampling.grammar = grammar;
    one.prompt_logprobs = request.echo && one.sampling.logprobs >= 0;
    std::string echo;
    if (request.echo) {
      const auto* text = std::get_if<std::string>(&prompt);
      echo = text != nullptr ? *text : model.language->detokenize(one.prompt);
    }
    for (int32_t i = 0; i < request.generation.n; ++i) {
      Request choice = one;
      choice.sampling.seed += static_cast<uint64_t>(i);
      choices.emplace_back(std::move(choice), echo);
    }
  }
  Answers answers(Answers::Api::kCompletion, answer_id("cmpl-", exchange), std::time(nullptr), model.name);
  Production production(exchange, model, std::move(answers), request.generation, options_.ping);
  production.count_prompt(counted);
  for (auto& [choice, echo] : choices) production.add(std::move(choice), nullptr, std::move(echo));
  production.run();
}

void Service::embeddings(Exchange& exchange) {
  const EmbeddingRequest request = read(exchange, parse_embedding);
  const std::shared_ptr<Model> named = this->model(request.model);
  Model& model = *named;
  const Generation nothing;
  int64_t tokens = 0;
  std::vector<Request> requests;
  for (const Prompt& input : request.inputs) {
    requests.push_back(request_of(exchange, model, nothing, tokens_of(exchange, model, input)));
    requests.back().embedding = true;
    tokens += static_cast<int64_t>(requests.back().prompt.size());
  }
  struct Flights {
    Dispatcher& dispatcher;
    std::vector<std::shared_ptr<Flight>> list;
    ~Flights() {
      for (const auto& flight : list) dispatcher.leave(*flight);
    }
  } flights{model.dispatcher, {}};
  std::vector<std::vector<float>> vectors;
  while (vectors.size() < requests.size()) {
    for (size_t next = flights.list.size(); next < std::min(requests.size(), vectors.size() + kTogether); ++next)
      flights.list.push_back(
          model.dispatcher.submit(std::move(requests[next]), exchange.waker(), std::chrono::steady_clock::now()));
    const std::shared_ptr<Flight>& flight = flights.list[vectors.size()];
    if (std::optional<Event> event = flight->next())
      vectors.push_back(std::move(event->embedding));
    else if (flight->error())
      throw *flight->error();
    else if (!exchange.wait_until(Instant::max()))
      return;
  }
  exchange.respond(200, kJson, embeddings_body(model.name, vectors, request.base64, tokens));
}

void Service::tokenize(Exchange& exchange) {
  const TokenizeRequest request = read(exchange, parse_tokenize);
  const std::shared_ptr<Model> named = model_or_only(request.model);
  const Model& model = *named;
  std::string body;
  exchange.run_on(pool_for(exchange, request.chat && wants_grammar(*request.chat)), [&] {
    const std::vector<Token> tokens =
        request.chat ? model.language->tokenize(model.language->render(*request.chat).prompt, true, true)
                     : model.language->tokenize(request.text, request.add_special, false);
    json::array list(tokens.begin(), tokens.end());
    body = to_json(json::object{{"count", static_cast<int64_t>(tokens.size())},
                                {"max_model_len", model.language->context_tokens()},
                                {"tokens", std::move(list)}});
  });
  exchange.respond(200, kJson, body);
}

void Service::detokenize(Exchange& exchange) {
  const DetokenizeRequest request = read(exchange, parse_detokenize);
  const std::shared_ptr<Model> named = model_or_only(request.model);
  const Model& model = *named;
  const std::vector<Token> tokens = tokens_of(exchange, model, request.tokens);
  const std::string text = valid_utf8(model.language->detokenize(tokens));
  exchange.respond(200, kJson, to_json(json::object{{"prompt", text}, {"content", text}}));
}

}  // namespace serving::gateway
