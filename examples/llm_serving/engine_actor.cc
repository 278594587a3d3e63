#include "examples/llm_serving/engine_actor.h"

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "examples/llm_serving/engine/model_file.h"

namespace serving {
namespace {

constexpr std::chrono::milliseconds kWatchEvery{250};
constexpr int kWatchdogExit = 70;  // EX_SOFTWARE

}  // namespace

StepOutlet::StepOutlet(rayo::StreamWriter<Step> writer, std::function<void()> on_lost)
    : writer_(std::move(writer)), on_lost_(std::move(on_lost)), thread_([this] { run(); }) {}

StepOutlet::~StepOutlet() {
  close();
  thread_.join();
}

void StepOutlet::close() {
  {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
  }
  some_.notify_one();
}

void StepOutlet::put(Step step) {
  {
    const std::scoped_lock lock(mutex_);
    if (closed_) return;
    if (pending_.events.empty())
      pending_ = std::move(step);
    else
      for (Event& event : step.events) pending_.events.push_back(std::move(event));
  }
  some_.notify_one();
}

void StepOutlet::run() {
  while (true) {
    Step step;
    {
      std::unique_lock lock(mutex_);
      some_.wait(lock, [this] { return closed_ || !pending_.events.empty(); });
      if (closed_) return;
      step = std::exchange(pending_, {});
    }
    if (write(step)) continue;
    close();
    on_lost_();
    return;
  }
}

// False: the gateway reads no more, or this outlet is being closed.
bool StepOutlet::write(const Step& step) {
  while (!closed_) {
    try {
      return writer_.write(step, std::chrono::milliseconds(200));
    } catch (const rayo::Timeout&) {  // the window is full
    } catch (const rayo::Error&) {
      return false;
    }
  }
  return false;
}

EngineActor::EngineActor(EngineOptions options, rayo::ActorHandle<ModelSource> source)
    : options_(std::move(options)),
      source_(std::move(source)),
      node_(rayo::context().node.hex()),
      loader_([this] { load(); }),
      watcher_([this, limits = WatchdogLimits{.step = std::chrono::seconds(options_.step_seconds),
                                              .orphan = std::chrono::seconds(options_.orphan_seconds)}] {
        watch(limits);
      }) {}

EngineActor::~EngineActor() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  end_.notify_one();
  watcher_.join();
  loader_.join();
  engine_.reset();
  outlets_.clear();
}

void EngineActor::load() {
  Result<std::unique_ptr<Engine>> loaded = std::unique_ptr<Engine>();
  if (const Result<std::string> path = fetch(); path) {
    options_.model_path = *path;
    loaded = load_engine();
  } else {
    loaded = path.problem();
  }
  const std::scoped_lock lock(mutex_);
  if (loaded)
    engine_ = std::move(*loaded);
  else
    problem_ = loaded.problem().what + (loaded.problem().next.empty() ? "" : " (try: " + loaded.problem().next + ")");
}

// A thread that computes without end cannot be ended alone: the process goes, and its replica is started again.
void EngineActor::watch(const WatchdogLimits& limits) {
  std::unique_lock lock(mutex_);
  while (!end_.wait_for(lock, kWatchEvery, [this] { return stopping_.load(); })) {
    const auto step = engine_ ? engine_->step_time() : std::chrono::steady_clock::duration::zero();
    const auto verdict = watchdog_verdict(limits, step, std::chrono::steady_clock::now() - last_asked_);
    if (!verdict) continue;
    std::fprintf(stderr, "%s\n", verdict->c_str());
    std::_Exit(kWatchdogExit);
  }
}

// Where the file is on this machine.
Result<std::string> EngineActor::fetch() {
  fetching_ = !is_whole(options_.model_path, options_.model_bytes);
  Result<std::string> path = fetch_model(options_.model_path, options_.model_bytes, source_, [this](double there) {
    progress_ = there;
    return !stopping_;
  });
  fetching_ = false;
  progress_ = 0;
  return path;
}

Result<std::unique_ptr<Engine>> EngineActor::load_engine() {
  return Engine::load(
      options_, available_memory_bytes(), [this](uint64_t gateway, Step step) { deliver(gateway, std::move(step)); },
      [this](double part) {
        progress_ = part;
        return !stopping_;
      });
}

Engine* EngineActor::engine() {
  const std::scoped_lock lock(mutex_);
  if (!problem_.empty()) throw std::runtime_error(problem_);
  return engine_.get();
}

Admission EngineActor::submit(uint64_t gateway, Request request) {
  Engine* ready = engine();
  if (ready == nullptr)
    return {.verdict = Admission::Verdict::kFull, .reason = "The model is being loaded.", .retry_after_s = 1};
  return ready->submit(gateway, std::move(request));
}

void EngineActor::cancel(uint64_t gateway, uint64_t request) {
  if (Engine* ready = engine()) ready->cancel(gateway, request);
}

rayo::Stream<Step> EngineActor::events(uint64_t gateway) {
  if (Engine* ready = engine()) ready->forget(gateway);
  auto [writer, stream] = rayo::make_stream<Step>({.window = 256, .window_bytes = 16 << 20});
  auto outlet = std::make_shared<StepOutlet>(std::move(writer), [this, gateway] {
    if (Engine* ready = engine()) ready->forget(gateway);
  });
  {
    const std::scoped_lock lock(mutex_);
    outlets_[gateway].swap(outlet);
  }
  return std::move(stream);  // the old one, if any, ends here and not under the lock
}

EngineStatus EngineActor::status() {
  {
    const std::scoped_lock lock(mutex_);
    last_asked_ = std::chrono::steady_clock::now();
  }
  EngineStatus status;
  if (Engine* ready = engine()) {
    status = ready->status();
  } else {
    status.state = fetching_ ? "fetching" : "loading";
    status.load_progress = progress_;
  }
  status.node = node_;
  return status;
}

void EngineActor::deliver(uint64_t gateway, Step step) {
  std::shared_ptr<StepOutlet> outlet;
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = outlets_.find(gateway); found != outlets_.end()) outlet = found->second;
  }
  if (outlet) outlet->put(std::move(step));
}

}  // namespace serving
