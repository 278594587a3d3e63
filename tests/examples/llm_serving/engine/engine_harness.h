// An engine over the real test model, and what it told.
#pragma once

#include <condition_variable>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "examples/llm_serving/engine/engine.h"
#include "examples/llm_serving/engine/model_file.h"
#include "examples/llm_serving/engine/sampler.h"
#include "examples/llm_serving/engine/tokenizer.h"

namespace serving {

// The vocabulary alone, loaded once for all tests.
inline const Tokenizer& test_tokenizer() {
  static const Result<Tokenizer> tokenizer = Tokenizer::load(RAYO_TEST_MODEL);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.problem().what << ": run ./dev deps";
  return *tokenizer;
}

// One answer as its client sees it; every event is checked on the way.
struct Answer {
  std::string text;
  std::vector<Token> tokens;
  std::vector<Event> events;
  Finish finish = Finish::kNone;
  std::string error;
  std::vector<float> embedding;
  int32_t cached_tokens = 0;
  // Of each token: by how much its score leads the next candidate's, noise included (with logprobs >= 2).
  std::vector<double> leads;
};

// How texts are compared: they may part from the first place on where the reference's two best candidates are closer than
// this. What moves a candidate by more, and where: docs/decisions/0004-what-a-text-depends-on.md.
constexpr double kNearTie = 0.05;

// True: they part at or behind such a place.
inline bool expect_same(const std::vector<Token>& got, const Answer& reference, size_t offset = 0,
                        const std::string& what = "") {
  bool near_tie = false;
  for (size_t i = 0; i + offset < reference.tokens.size(); ++i) {
    const double lead = reference.leads.at(i + offset);
    near_tie |= lead < kNearTie;
    if (i < got.size() && got[i] == reference.tokens[i + offset]) continue;
    EXPECT_TRUE(near_tie) << what << ": token " << i + offset << " differs, and the reference leads by " << lead;
    return true;
  }
  EXPECT_EQ(got.size() + offset, reference.tokens.size()) << what;
  return false;
}

class EngineHarness {
 public:
  static constexpr uint64_t kGateway = 1;

  explicit EngineHarness(EngineOptions options) {
    options.model_path = RAYO_TEST_MODEL;
    if (options.threads == 0) options.threads = 1;  // on a busy machine two would wait for one another
    auto engine = Engine::load(
        options, available_memory_bytes(), [this](uint64_t gateway, Step step) { take(gateway, std::move(step)); },
        nullptr);
    if (!engine) {
      ADD_FAILURE() << engine.problem().what;
      std::abort();
    }
    engine_ = std::move(*engine);
  }

  Engine& engine() { return *engine_; }

  Request request(const std::string& prompt, int32_t max_tokens, float temperature = 0) {
    Request made;
    made.id = ++last_id_;
    made.client = "test";
    made.prompt = test_tokenizer().encode(prompt, Special::kParsed);
    made.max_tokens = max_tokens;
    made.sampling.temperature = temperature;
    return made;
  }

  Admission submit(const Request& request) {
    {
      const std::lock_guard lock(mutex_);
      first_position_[request.id] = static_cast<int32_t>(request.replayed.size());
      samplings_[request.id] = request.sampling;
    }
    return engine_->submit(kGateway, request);
  }

  Answer wait(uint64_t id) {
    std::unique_lock lock(mutex_);
    const bool ended =
        changed_.wait_for(lock, std::chrono::seconds(120), [&] { return answers_[id].finish != Finish::kNone; });
    EXPECT_TRUE(ended) << "request " << id << " never ends";
    return answers_[id];
  }

  // Until a request has told `count` tokens, or has ended.
  Answer wait_tokens(uint64_t id, size_t count) {
    std::unique_lock lock(mutex_);
    const bool there = changed_.wait_for(lock, std::chrono::seconds(120), [&] {
      return answers_[id].tokens.size() >= count || answers_[id].finish != Finish::kNone;
    });
    EXPECT_TRUE(there) << "request " << id << " does not advance";
    return answers_[id];
  }

  Answer run(const Request& request) {
    const Admission admission = submit(request);
    EXPECT_EQ(admission.verdict, Admission::Verdict::kTaken) << admission.reason;
    return admission.verdict == Admission::Verdict::kTaken ? wait(request.id) : Answer{};
  }

  // Of all tokens in the order in which they were told.
  std::vector<std::pair<uint64_t, size_t>> order() {
    const std::lock_guard lock(mutex_);
    return order_;
  }

 private:
  // Of the chosen token over the best other one among those that were told.
  static double lead(const Event& event, const Sampling& sampling) {
    double own = -1e9, other = -1e9;
    for (const TokenLogprob& candidate : event.top) {
      double score = candidate.logprob;
      if (sampling.temperature > 0)
        score = score / sampling.temperature + gumbel_noise(sampling.seed, event.position, candidate.token);
      double& best = candidate.token == event.token ? own : other;
      best = std::max(best, score);
    }
    return own - other;
  }

  void take(uint64_t gateway, Step step) {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(gateway, kGateway);
    ++steps_;
    for (Event& event : step.events) {
      Answer& answer = answers_[event.request];
      EXPECT_EQ(answer.finish, Finish::kNone) << "an event after the end";
      answer.text += event.text;
      if (event.token >= 0) {
        EXPECT_EQ(event.position, first_position_[event.request] + static_cast<int32_t>(answer.tokens.size()))
            << "a token lost, doubled or out of order";
        answer.tokens.push_back(event.token);
        order_.emplace_back(event.request, steps_);
        if (event.top.size() >= 2) answer.leads.push_back(lead(event, samplings_[event.request]));
      }
      answer.cached_tokens = event.cached_tokens;
      answer.finish = event.finish;
      answer.error = event.error;
      answer.embedding = event.embedding;
      answer.events.push_back(std::move(event));
    }
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, Answer> answers_;
  std::map<uint64_t, int32_t> first_position_;
  std::map<uint64_t, Sampling> samplings_;
  std::vector<std::pair<uint64_t, size_t>> order_;
  size_t steps_ = 0;
  uint64_t last_id_ = 0;
  std::unique_ptr<Engine> engine_;  // last: its thread uses the others
};

}  // namespace serving
