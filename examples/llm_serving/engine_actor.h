// An engine as an actor: a mailbox that is always served, because the engine decodes on a thread of its own.
//
//   auto engine = rayo::spawn<EngineActor>({.node = node}, options, source);
//   rayo::Stream<Step> steps = engine.call<&EngineActor::events>(gateway).get();
//   Admission admission = engine.call<&EngineActor::submit>(gateway, request).get();
//
// It loads in the background: status() tells the progress, and throws what the load failed with. Where the model's file is not on
// its node, it gets it from `source` into its models/ first (state "fetching"). A watchdog ends the process where a decoding step
// does not end (options.step_seconds), or nobody asks (options.orphan_seconds); its last line says which.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <rayo/rayo.h>

#include "examples/llm_serving/engine/engine.h"
#include "examples/llm_serving/model_source.h"
#include "examples/llm_serving/protocol.h"
#include "examples/llm_serving/watchdog.h"

namespace serving {

// The way of steps to one gateway: the engine's thread never waits for it, one of its own does.
class StepOutlet {
 public:
  StepOutlet(rayo::StreamWriter<Step> writer, std::function<void()> on_lost);
  ~StepOutlet();
  // Takes the events; several steps become one where the gateway is slower than the engine.
  void put(Step step);

 private:
  void run();
  bool write(const Step& step);
  void close();

  rayo::StreamWriter<Step> writer_;
  std::function<void()> on_lost_;
  std::mutex mutex_;
  std::condition_variable some_;
  Step pending_;
  std::atomic<bool> closed_{false};  // set under the mutex
  std::thread thread_;
};

class EngineActor {
 public:
  EngineActor(EngineOptions options, rayo::ActorHandle<ModelSource> source);
  ~EngineActor();

  Admission submit(uint64_t gateway, Request request);
  void cancel(uint64_t gateway, uint64_t request);
  // The one stream of a gateway; a second call ends the first one's requests.
  rayo::Stream<Step> events(uint64_t gateway);
  EngineStatus status();

 private:
  void load();
  void watch(const WatchdogLimits& limits);
  Result<std::string> fetch();
  Result<std::unique_ptr<Engine>> load_engine();
  Engine* engine();  // null while it loads; throws why it could not
  void deliver(uint64_t gateway, Step step);

  EngineOptions options_;  // the loader's alone once it runs
  const rayo::ActorHandle<ModelSource> source_;
  const std::string node_;
  std::atomic<double> progress_{0};
  std::atomic<bool> fetching_{false};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;  // guards what follows
  std::unique_ptr<Engine> engine_;
  std::string problem_;
  std::map<uint64_t, std::shared_ptr<StepOutlet>> outlets_;
  std::chrono::steady_clock::time_point last_asked_ = std::chrono::steady_clock::now();
  std::condition_variable end_;  // of the watcher
  std::thread loader_;
  std::thread watcher_;
};

}  // namespace serving
