#include "examples/llm_serving/replica.h"

#include <random>

namespace serving {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kStatusEvery{500};
constexpr milliseconds kLoadingEvery{50};    // whoever started it waits for its first answer
constexpr milliseconds kPatience{15'000};    // an engine that answers nothing this long is ended
constexpr milliseconds kShortestPause{100};  // before another engine is started; doubled with each death
constexpr milliseconds kLongestPause{10'000};

uint64_t random_number() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

// With the last words of what died: a watchdog's say why.
std::string reason_of(const rayo::ErrorRecord& error) {
  if (!error.death || error.death->last_log_lines.empty()) return error.text;
  return error.text + ": " + error.death->last_log_lines.back();
}

}  // namespace

Replica::Replica(gateway::ReplicaId id, rayo::ActorHandle<ModelSource> source, ChoosePlace choose_place,
                 boost::asio::io_context& io, ReplicaListener listener)
    : id_(id),
      source_(std::move(source)),
      choose_place_(std::move(choose_place)),
      io_(io),
      listener_(std::make_shared<const ReplicaListener>(std::move(listener))),
      gateway_(random_number()),
      caller_([this] { run(); }) {}

Replica::~Replica() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  work_.notify_one();
  caller_.join();
}

void Replica::submit(Request request) {
  {
    const std::scoped_lock lock(mutex_);
    orders_.push_back({.request = std::move(request)});
  }
  work_.notify_one();
}

void Replica::cancel(gateway::Attempt attempt) {
  {
    const std::scoped_lock lock(mutex_);
    orders_.push_back({.request = std::nullopt, .attempt = attempt});
  }
  work_.notify_one();
}

template <class F>
void Replica::post(F&& work) {
  boost::asio::post(io_, [listener = listener_, work = std::forward<F>(work)] { work(*listener); });
}

// One engine after another, until this replica is no longer wanted.
void Replica::run() {
  milliseconds pause = kShortestPause;
  while (true) {
    const auto begin = std::chrono::steady_clock::now();
    try {
      const EnginePlace place = choose_place_(id_);
      const Handle engine = rayo::spawn<EngineActor>(place.actor, place.engine, source_);
      {
        const std::scoped_lock lock(mutex_);
        broken_ = false;
        orders_.clear();  // they were for the one before, and go elsewhere
      }
      live(engine);
    } catch (const rayo::Error& error) {
      lost(reason_of(error.record()));
    }
    std::unique_lock lock(mutex_);
    if (std::chrono::steady_clock::now() - begin > kLongestPause) pause = kShortestPause;
    if (work_.wait_for(lock, pause, [this] { return stopping_; })) return;
    pause = std::min(pause * 2, kLongestPause);
  }
}

// Until the engine is gone or not wanted any more.
void Replica::live(const Handle& engine) {
  const auto stop = std::make_shared<std::atomic<bool>>(false);
  // Before any request: the engine handles calls in the order in which they were made, so no step is without a way.
  std::thread reader([this, stop, steps = engine.call<&EngineActor::events>(gateway_)] { read(steps, stop); });
  try {
    auto next_status = std::chrono::steady_clock::now();
    while (true) {
      {
        std::unique_lock lock(mutex_);
        work_.wait_until(lock, next_status, [this] { return stopping_ || broken_ || !orders_.empty(); });
        if (stopping_ || broken_) break;
      }
      carry_out(engine);
      if (std::chrono::steady_clock::now() < next_status) continue;
      const std::optional<std::string> state = ask_status(engine);
      if (!state) break;
      next_status = std::chrono::steady_clock::now() + (*state == "ready" ? kStatusEvery : kLoadingEvery);
    }
  } catch (const rayo::Error& error) {
    lost(reason_of(error.record()));
  }
  *stop = true;
  try {
    rayo::kill(engine);
  } catch (const rayo::Error&) {  // it is gone already, or the session is
  }
  reader.join();
}

// Its state; nothing: it is to be given up.
std::optional<std::string> Replica::ask_status(const Handle& engine) {
  const auto ref = engine.call<&EngineActor::status>();
  for (milliseconds waited{0}; waited < kPatience; waited += kStatusEvery) {
    const rayo::Result<EngineStatus> status = ref.try_get(kStatusEvery);
    if (status) {
      post([id = id_, status = *status](const ReplicaListener& listener) { listener.answered(id, status); });
      return status->state;
    }
    if (status.error().kind != rayo::ErrorKind::kTimeout) {
      lost(reason_of(status.error()));
      return std::nullopt;
    }
    const std::scoped_lock lock(mutex_);
    if (stopping_ || broken_) return std::nullopt;
  }
  lost("its engine has not answered for " + std::to_string(kPatience.count() / 1000) + " s");
  return std::nullopt;
}

// Everything that waits, at once; then the admissions.
void Replica::carry_out(const Handle& engine) {
  std::deque<Order> orders;
  {
    const std::scoped_lock lock(mutex_);
    orders.swap(orders_);
  }
  struct Asked {
    gateway::Attempt attempt;
    rayo::ObjectRef<Admission> admission;
    gateway::Instant at;
  };
  std::vector<Asked> waiting;
  for (Order& order : orders) {
    if (order.request) {
      auto ref = engine.call<&EngineActor::submit>(gateway_, *order.request);
      waiting.push_back({order.request->id, std::move(ref), std::chrono::steady_clock::now()});
    } else {
      engine.call<&EngineActor::cancel>(gateway_, order.attempt);
    }
  }
  for (const Asked& asked : waiting) {
    const Admission admission = asked.admission.get(kPatience);
    post([attempt = asked.attempt, at = asked.at, admission](const ReplicaListener& listener) {
      listener.admitted(attempt, admission, at);
    });
  }
}

void Replica::read(const rayo::ObjectRef<rayo::Stream<Step>>& opened, const std::shared_ptr<std::atomic<bool>>& stop) {
  try {
    rayo::Stream<Step> steps = opened.get();
    while (!*stop) {
      try {
        std::optional<Step> step = steps.next(kStatusEvery);
        if (!step) break;
        post([id = id_, step = std::move(*step), arrived = std::chrono::steady_clock::now()](
                 const ReplicaListener& listener) { listener.step(id, step, arrived); });
      } catch (const rayo::Timeout&) {  // nothing happened
      }
    }
    if (!*stop) lost("its engine ended its stream");
  } catch (const rayo::Error& error) {
    if (!*stop) lost(reason_of(error.record()));
  }
}

void Replica::lost(const std::string& why) {
  {
    const std::scoped_lock lock(mutex_);
    if (broken_ || stopping_) return;
    broken_ = true;
  }
  work_.notify_one();
  post([id = id_, why](const ReplicaListener& listener) { listener.died(id, why); });
}

}  // namespace serving
