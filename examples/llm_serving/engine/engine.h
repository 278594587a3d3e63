// One model that answers many requests at once: continuous batching over one KV cache.
//
//   auto engine = Engine::load(options, on_step, progress);
//   Admission admission = (*engine)->submit(gateway, request);
//   ... on_step(gateway, step) with the request's events, from the engine's own thread ...
//
// It owns weights, cache, one thread that decodes and one that reads grammars; every call here returns at once and may
// come from any thread, on_step included. A grammar has passed check_grammar(), which bounds what it may cost; one that
// cannot be read all the same ends its request with kError. A request is known by its gateway and the number that this gateway gave it. Of each request that
// was taken exactly one event ends it (Event::finish); its tokens come in order, none lost and none twice.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "examples/llm_serving/batching/batcher.h"
#include "examples/llm_serving/batching/rate.h"
#include "examples/llm_serving/engine/live_request.h"
#include "examples/llm_serving/engine/result.h"
#include "examples/llm_serving/engine/runner.h"
#include "examples/llm_serving/protocol.h"

namespace serving {

class Engine {
 public:
  using OnStep = std::function<void(uint64_t gateway, Step step)>;

  // Blocks while the weights load, seconds to minutes. `free_bytes`: what weights and cache may take.
  static Result<std::unique_ptr<Engine>> load(const EngineOptions& options, uint64_t free_bytes, OnStep on_step,
                                              const Runner::Progress& progress);
  // Ends the thread after the step under way. Requests that run get no further event.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  Admission submit(uint64_t gateway, Request request);
  // Its place is free for the next step; its last event is kCancelled. Of unknown requests: nothing.
  void cancel(uint64_t gateway, uint64_t request);
  // The gateway is gone: all of its requests are cancelled, and nothing is told.
  void forget(uint64_t gateway);
  EngineStatus status() const;
  // For how long the step under way has been computing; zero between steps.
  std::chrono::steady_clock::duration step_time() const;
  const Tokenizer& tokenizer() const { return runner_->tokenizer(); }

 private:
  using Clock = std::chrono::steady_clock;
  // Of one request that was taken. The LiveRequest is the decoding thread's alone once the batcher may start it.
  struct Entry {
    uint64_t gateway = 0;
    uint64_t request = 0;
    std::shared_ptr<LiveRequest> live;  // null until its grammar is read
    Clock::time_point began;
    int32_t position = 0;        // tokens that were told
    int32_t cached_tokens = -1;  // -1: it has not started
    Clock::duration queued{};    // until it started
  };
  struct Outcome {
    uint64_t key = 0;
    std::shared_ptr<LiveRequest> live;
    Event event;
  };
  struct Unread {
    uint64_t key = 0;
    Request request;
  };

  Engine(std::unique_ptr<Runner> runner, OnStep on_step);
  void serve();
  void read_grammars();
  void note_starts(const Plan& plan);
  void note_step();
  std::shared_ptr<LiveRequest> live_of(uint64_t key) const;
  std::vector<Outcome> results_of(const Plan& plan);
  void commit(std::vector<Outcome>& outcomes);
  void tell(uint64_t key, Event event);
  void end(uint64_t key, Finish finish, const std::string& error = "");
  void recover(const Plan& plan, Runner::Outcome outcome);
  double retry_after() const;
  void deliver();

  std::unique_ptr<Runner> runner_;
  const OnStep on_step_;
  std::atomic<Clock::rep> step_began_{0};  // 0: no step is under way

  // Guarded by mutex_, which is never held while libllama computes or on_step_ runs.
  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable grammar_;
  std::deque<Unread> unread_;
  Batcher batcher_;
  std::unordered_map<uint64_t, Entry> entries_;
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> keys_;  // (gateway, request)
  std::map<uint64_t, Step> steps_;                          // not yet delivered, by gateway
  Rate rate_;
  EngineStatus counters_;
  uint64_t last_key_ = 0;
  double seconds_each_ = 1;  // of a request, smoothed
  double usual_step_ = 0;    // seconds, smoothed
  int failures_ = 0;         // of libllama, one after another
  bool stopping_ = false;

  std::thread thread_, grammar_thread_;  // last: they use all of the above
};

}  // namespace serving
