#include "examples/llm_serving/engine/engine.h"

#include <algorithm>
#include <pthread.h>

#include "examples/llm_serving/engine/cpu_variant.h"

namespace serving {
namespace {

constexpr int kMostFailures = 2;  // of libllama in a row, before requests are given up
// Clients give up on a Retry-After of more than two minutes.
constexpr double kShortestRetry = 1, kLongestRetry = 120;

Admission invalid_request(std::string reason) { return {Admission::Verdict::kInvalid, std::move(reason), 0}; }

Work work_of(const Request& request) {
  Work work;
  work.client = request.client;
  work.tokens = request.prompt;
  work.tokens.insert(work.tokens.end(), request.replayed.begin(), request.replayed.end());
  work.prompt_tokens = static_cast<int32_t>(request.prompt.size());
  work.max_output = request.max_tokens;
  work.embedding = request.embedding;
  work.every_output = request.prompt_logprobs && request.replayed.empty();
  return work;
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::load(const EngineOptions& options, uint64_t free_bytes, OnStep on_step,
                                             const Runner::Progress& progress) {
  Result<std::unique_ptr<Runner>> runner = Runner::load(options, free_bytes, progress);
  if (!runner) return runner.problem();
  return std::unique_ptr<Engine>(new Engine(std::move(*runner), std::move(on_step)));
}

Engine::Engine(std::unique_ptr<Runner> runner, OnStep on_step)
    : runner_(std::move(runner)), on_step_(std::move(on_step)), batcher_(runner_->limits()) {
  const CpuChoice& cpu = choose_cpu_variant();
  counters_.model = runner_->file().name;
  counters_.cpu_variant = cpu.reason.empty() ? cpu.name : cpu.name + " (" + cpu.reason + ")";
  counters_.device = runner_->device();
  counters_.load_progress = 1;
  counters_.context_tokens = runner_->limits().context_tokens;
  counters_.kv_tokens = runner_->limits().kv_tokens;
  thread_ = std::thread([this] { serve(); });
  grammar_thread_ = std::thread([this] { read_grammars(); });
}

Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_one();
  grammar_.notify_one();
  thread_.join();
  grammar_thread_.join();
}

Admission Engine::submit(uint64_t gateway, Request request) {
  Work work = work_of(request);
  const std::pair name(gateway, request.id);
  const auto replayed = static_cast<int32_t>(request.replayed.size());
  const bool grammar = !request.sampling.grammar.empty();
  std::shared_ptr<LiveRequest> live;
  if (!grammar) {
    Result<LiveRequest> made = LiveRequest::make(std::move(request), tokenizer());
    if (!made) return invalid_request(made.problem().what);
    live = std::make_shared<LiveRequest>(std::move(*made));
  }

  const std::lock_guard lock(mutex_);
  if (keys_.contains(name)) return invalid_request("this gateway has a request of the same number already");
  const uint64_t key = work.key = ++last_key_;
  Admission admission = batcher_.admit(std::move(work), !grammar);
  if (admission.verdict == Admission::Verdict::kFull) admission.retry_after_s = retry_after();
  if (admission.verdict != Admission::Verdict::kTaken) return admission;
  entries_[key] = {gateway, name.second, std::move(live), Clock::now(), replayed, -1, {}};
  keys_.emplace(name, key);
  if (grammar) {
    unread_.push_back({key, std::move(request)});
    grammar_.notify_one();
  } else {
    work_.notify_one();
  }
  return admission;
}

// Tens of milliseconds each, a second at most: neither submit()'s thread nor the one that decodes waits for it.
void Engine::read_grammars() {
  std::unique_lock lock(mutex_);
  while (true) {
    grammar_.wait(lock, [&] { return stopping_ || !unread_.empty(); });
    if (stopping_) return;
    Unread next = std::move(unread_.front());
    unread_.pop_front();
    if (!entries_.contains(next.key)) continue;  // cancelled meanwhile
    lock.unlock();
    Result<LiveRequest> live = LiveRequest::make(std::move(next.request), tokenizer());
    lock.lock();
    const auto at = entries_.find(next.key);
    if (at == entries_.end()) continue;
    if (live) {
      at->second.live = std::make_shared<LiveRequest>(std::move(*live));
      batcher_.ready(next.key);
    } else {
      end(next.key, Finish::kError, live.problem().what);
    }
    work_.notify_one();
  }
}

double Engine::retry_after() const {
  return std::clamp(seconds_each_ * (batcher_.waiting() + 1) / runner_->limits().parallel, kShortestRetry,
                    kLongestRetry);
}

void Engine::cancel(uint64_t gateway, uint64_t request) {
  const std::lock_guard lock(mutex_);
  const auto at = keys_.find({gateway, request});
  if (at == keys_.end()) return;
  end(at->second, Finish::kCancelled);
  work_.notify_one();
}

void Engine::forget(uint64_t gateway) {
  const std::lock_guard lock(mutex_);
  for (auto at = keys_.lower_bound({gateway, 0}); at != keys_.end() && at->first.first == gateway;) {
    batcher_.cancel(at->second);
    entries_.erase(at->second);
    at = keys_.erase(at);
  }
  steps_.erase(gateway);
  work_.notify_one();
}

EngineStatus Engine::status() const {
  const std::lock_guard lock(mutex_);
  EngineStatus status = counters_;
  status.state = stopping_ ? "stopping" : "ready";
  status.kv_used_tokens = batcher_.kv_used();
  status.running = batcher_.running();
  status.waiting = batcher_.waiting();
  status.tokens_per_second = rate_.per_second(Clock::now());
  status.step_under_way_s = std::chrono::duration<double>(step_time()).count();
  status.usual_step_s = usual_step_;
  status.preemptions = batcher_.preemptions();
  return status;
}

std::chrono::steady_clock::duration Engine::step_time() const {
  const Clock::rep began = step_began_;
  return began == 0 ? Clock::duration::zero() : Clock::now() - Clock::time_point(Clock::duration(began));
}

void Engine::serve() {
  pthread_setname_np(pthread_self(), "decode");  // as `top -H` shows it
  while (true) {
    Plan plan;
    {
      std::unique_lock lock(mutex_);
      work_.wait(lock, [&] { return stopping_ || !batcher_.idle() || !steps_.empty(); });
      if (stopping_) return;
      plan = batcher_.plan();
      note_starts(plan);
    }
    step_began_ = Clock::now().time_since_epoch().count();
    const Runner::Outcome outcome = runner_->run(plan);
    if (outcome == Runner::Outcome::kDone) {
      std::vector<Outcome> outcomes = results_of(plan);
      commit(outcomes);
    } else {
      recover(plan, outcome);
    }
    note_step();
    deliver();
  }
}

void Engine::note_step() {
  const double seconds = std::chrono::duration<double>(step_time()).count();
  step_began_ = 0;
  const std::lock_guard lock(mutex_);
  usual_step_ += 0.2 * (seconds - usual_step_);
}

void Engine::note_starts(const Plan& plan) {
  for (const Start& start : plan.started) {
    Entry& entry = entries_.at(start.key);
    if (entry.cached_tokens >= 0) continue;  // it gave way to others, and starts again
    entry.cached_tokens = start.cached_tokens;
    entry.queued = Clock::now() - entry.began;
    counters_.prompt_tokens += static_cast<uint64_t>(start.prompt_tokens);
    counters_.cached_tokens += static_cast<uint64_t>(start.cached_tokens);
  }
}

std::shared_ptr<LiveRequest> Engine::live_of(uint64_t key) const {
  const std::lock_guard lock(mutex_);
  const auto at = entries_.find(key);
  return at == entries_.end() ? nullptr : at->second.live;
}

// Choosing tokens costs milliseconds where there are grammars: without the lock.
std::vector<Engine::Outcome> Engine::results_of(const Plan& plan) {
  std::vector<Outcome> outcomes;
  for (size_t i = 0; i < plan.pieces.size(); ++i) {
    const Piece& piece = plan.pieces[i];
    if (!piece.wants_output && !piece.every_output && !plan.embedding) continue;
    const std::shared_ptr<LiveRequest> live = live_of(piece.key);
    if (!live) continue;  // cancelled meanwhile
    if (plan.embedding) live->add_hidden(piece.start, runner_->hidden(i), static_cast<size_t>(runner_->hidden_width()));
    for (size_t token = 0; piece.every_output && token < piece.tokens.size(); ++token)
      live->note_prompt(piece.start + static_cast<int32_t>(token), runner_->logits(i, token));
    if (piece.wants_output)
      outcomes.push_back({piece.key, live, plan.embedding ? live->embedding() : live->next(runner_->logits(i))});
  }
  return outcomes;
}

void Engine::commit(std::vector<Outcome>& outcomes) {
  const std::lock_guard lock(mutex_);
  failures_ = 0;
  uint64_t tokens = 0;
  for (Outcome& outcome : outcomes) {
    Event& event = outcome.event;
    if (!entries_.contains(outcome.key)) continue;
    if (event.token >= 0) {
      ++tokens;
      if (batcher_.produced(outcome.key, event.token) && event.finish == Finish::kNone) {
        event.finish = Finish::kLength;
        event.text += outcome.live->rest();
      }
    }
    tell(outcome.key, std::move(event));
  }
  counters_.output_tokens += tokens;
  rate_.add(Clock::now(), tokens);
}

// The request's next event; the last one takes the request with it.
void Engine::tell(uint64_t key, Event event) {
  Entry& entry = entries_.at(key);
  event.cached_tokens = std::max(0, entry.cached_tokens);
  event.queued_s = std::chrono::duration<double>(entry.queued).count();
  entry.position += event.token >= 0;
  const bool last = event.finish != Finish::kNone;
  steps_[entry.gateway].events.push_back(std::move(event));
  if (!last) return;
  const double seconds = std::chrono::duration<double>(Clock::now() - entry.began).count();
  seconds_each_ += 0.1 * (seconds - seconds_each_);
  batcher_.finish(key);
  keys_.erase({entry.gateway, entry.request});
  entries_.erase(key);
}

void Engine::end(uint64_t key, Finish finish, const std::string& error) {
  Event event;
  event.request = entries_.at(key).request;
  event.position = entries_.at(key).position;
  event.finish = finish;
  event.error = error;
  tell(key, std::move(event));
}

void Engine::recover(const Plan& plan, Runner::Outcome outcome) {
  const std::lock_guard lock(mutex_);
  if (outcome == Runner::Outcome::kNoRoom) {
    if (const auto stuck = batcher_.refused(plan); stuck && entries_.contains(*stuck))
      end(*stuck, Finish::kError, "the model's cache has no room for this request alone");
    return;
  }
  // What the cache holds is unknown: everybody is computed again, once; then whoever was in the step is given up.
  runner_->clear();
  batcher_.restart_all();
  if (++failures_ < kMostFailures) return;
  failures_ = 0;
  for (const Piece& piece : plan.pieces) {
    if (entries_.contains(piece.key)) end(piece.key, Finish::kError, "the model could not compute this request");
  }
}

void Engine::deliver() {
  std::map<uint64_t, Step> steps;
  {
    const std::lock_guard lock(mutex_);
    steps.swap(steps_);
  }
  for (auto& [gateway, step] : steps) on_step_(gateway, std::move(step));
}

}  // namespace serving
