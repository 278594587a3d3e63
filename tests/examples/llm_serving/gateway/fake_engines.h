// Engines that need no model: the n-th token of an answer depends on the prompt and on the tokens before alone, as a real
// model's does at temperature 0, so that a replayed answer can be compared with an undisturbed one.
#pragma once

#include <boost/asio.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "examples/llm_serving/gateway/dispatcher.h"
#include "examples/llm_serving/gateway/language.h"

namespace serving::gateway {

// Each byte is a token; a chat is its messages' texts, one after the other.
class ByteLanguage : public Language {
 public:
  std::vector<Token> tokenize(std::string_view text, bool, bool) const override {
    std::vector<Token> tokens;
    for (const unsigned char byte : text) tokens.push_back(byte);
    return tokens;
  }
  PromptTokens tokenize_prompt(std::string_view text, bool marks) const override {
    return {tokenize(text, true, marks), 0};
  }
  std::string piece(Token token) const override { return std::string(1, static_cast<char>(token)); }
  std::string detokenize(std::span<const Token> tokens) const override {
    std::string text;
    for (const Token token : tokens) text += piece(token);
    return text;
  }
  int32_t vocabulary() const override { return 256; }
  int32_t context_tokens() const override { return 4096; }
  RenderedChat render(const ChatRequest& request) const override {
    RenderedChat rendered;
    for (const auto& message : request.messages) {
      if (message.at("role").get_string() == "tool") throw bad_request("No tools in this template.", "messages");
      rendered.prompt += std::string(message.at("content").get_string()) + "\n";
    }
    return rendered;
  }
  std::string grammar(const OutputFormat&) const override { return {}; }
};

inline char next_byte(const std::vector<Token>& prompt, const std::vector<Token>& output) {
  uint32_t hash = 2166136261 + static_cast<uint32_t>(output.size());
  const auto add = [&hash](Token token) { hash = (hash ^ static_cast<uint32_t>(token)) * 16777619; };
  for (const Token token : prompt) add(token);
  for (size_t i = output.size() > 8 ? output.size() - 8 : 0; i < output.size(); ++i) add(output[i]);
  return static_cast<char>('a' + hash % 26);
}

inline std::string expected_text(const std::string& prompt, size_t tokens) {
  std::vector<Token> in(prompt.begin(), prompt.end()), out;
  std::string text;
  for (size_t i = 0; i < tokens; ++i) {
    text += next_byte(in, out);
    out.push_back(text.back());
  }
  return text;
}

// All replicas of one model, on the io thread; each has a token for every request each `pace`.
class FakeEngines : public EngineLink {
 public:
  FakeEngines(boost::asio::io_context& io, std::chrono::milliseconds pace) : timer_(io), pace_(pace) {}

  void attach(Dispatcher& dispatcher) { dispatcher_ = &dispatcher; }
  void add(ReplicaId replica) {
    dispatcher_->add_replica(replica, 4, now());
    living_.insert(replica);
    answer();
  }
  void submit(ReplicaId replica, Request request) override {
    last_seed = request.sampling.seed;
    last_client = request.client;
    ++submitted;
    if (full || work_.size() >= places)
      return dispatcher_->admitted(request.id, {Admission::Verdict::kFull, "The queue is full.", 3}, now(), now());
    dispatcher_->admitted(request.id, {}, now(), now());
    if (request.embedding) {
      Event event{.request = request.id, .finish = Finish::kStop};
      event.embedding = {0.5f, -0.25f};
      return boost::asio::post(timer_.get_executor(),
                               [this, replica, event] { dispatcher_->step(replica, {{event}}, now()); });
    }
    work_[{replica, request.id}] = std::move(request);
  }
  void cancel(ReplicaId replica, Attempt attempt) override { cancelled += work_.erase({replica, attempt}); }
  // kill -9
  void kill(ReplicaId replica) {
    living_.erase(replica);
    std::erase_if(work_, [replica](const auto& entry) { return entry.first.first == replica; });
    dispatcher_->died(replica, now());
  }
  void run() {
    timer_.expires_after(pace_);
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (error || stopped_) return;  // a cancel comes too late for an expiry that is on its way
      if (!stalled) step();
      answer();
      run();
    });
  }
  void stop() {
    stopped_ = true;
    timer_.cancel();
  }
  std::optional<ReplicaId> working() const {
    return work_.empty() ? std::nullopt : std::optional<ReplicaId>(work_.begin()->first.first);
  }

  bool full = false;
  size_t places = SIZE_MAX;  // of all engines together; more is refused
  bool stalled = false;
  uint64_t last_seed = 0;
  std::string last_client;
  size_t submitted = 0;
  size_t cancelled = 0;

 private:
  static Instant now() { return std::chrono::steady_clock::now(); }
  void answer() {
    for (const ReplicaId replica : living_)
      dispatcher_->answered(replica, {.state = "ready", .kv_tokens = 4096, .running = 1}, now());
  }
  void step() {
    std::map<ReplicaId, Step> steps;
    for (auto at = work_.begin(); at != work_.end();) {
      Request& request = at->second;
      const auto position = static_cast<int32_t>(request.replayed.size());
      Event event{.request = request.id, .position = position, .token = next_byte(request.prompt, request.replayed)};
      event.text = std::string(1, static_cast<char>(event.token));
      event.logprob = -0.5f;
      if (position == 0 && request.prompt_logprobs)
        event.prompt.resize(request.prompt.size() - 1, {-0.25f, {{'x', -2}}});
      request.replayed.push_back(event.token);
      const bool last = position + 1 >= request.max_tokens;
      if (last) event.finish = Finish::kLength;
      steps[at->first.first].events.push_back(event);
      at = last ? work_.erase(at) : std::next(at);
    }
    for (const auto& [replica, step] : steps) dispatcher_->step(replica, step, now());
  }

  boost::asio::steady_timer timer_;
  std::chrono::milliseconds pace_;
  bool stopped_ = false;
  Dispatcher* dispatcher_ = nullptr;
  std::set<ReplicaId> living_;
  std::map<std::pair<ReplicaId, Attempt>, Request> work_;
};

}  // namespace serving::gateway
