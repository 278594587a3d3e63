// The gateway's end of one engine: spawns the actor, keeps its stream of steps, asks for its status twice a second, and
// starts another one where it dies. What it learns is posted to the io thread.
//
// Two threads: one calls and waits for answers, one reads the stream.
#pragma once

#include <atomic>
#include <boost/asio.hpp>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <rayo/rayo.h>

#include "examples/llm_serving/engine_actor.h"
#include "examples/llm_serving/gateway/router.h"

namespace serving {

// What a replica tells; called on the io thread.
struct ReplicaListener {
  std::function<void(gateway::ReplicaId, const EngineStatus&)> answered;
  std::function<void(gateway::ReplicaId, const std::string& why)> died;
  std::function<void(gateway::Attempt, const Admission&, gateway::Instant handed_over)> admitted;
  std::function<void(gateway::ReplicaId, const Step&, gateway::Instant arrived)> step;
};

// Where the next engine of a replica goes, what it leases, and how it is made.
struct EnginePlace {
  rayo::ActorOptions actor;
  EngineOptions engine;
};
// Called on the replica's thread.
using ChoosePlace = std::function<EnginePlace(gateway::ReplicaId)>;

class Replica {
 public:
  Replica(gateway::ReplicaId id, rayo::ActorHandle<ModelSource> source, ChoosePlace choose_place,
          boost::asio::io_context& io, ReplicaListener listener);
  // Ends its engine.
  ~Replica();

  void submit(Request request);
  void cancel(gateway::Attempt attempt);

 private:
  using Handle = rayo::ActorHandle<EngineActor>;
  struct Order {
    std::optional<Request> request;
    gateway::Attempt attempt = 0;  // to cancel, where there is no request
  };

  void run();
  void live(const Handle& engine);
  std::optional<std::string> ask_status(const Handle& engine);
  void carry_out(const Handle& engine);
  void read(const rayo::ObjectRef<rayo::Stream<Step>>& opened, const std::shared_ptr<std::atomic<bool>>& stop);
  void lost(const std::string& why);
  template <class F>
  void post(F&& work);

  const gateway::ReplicaId id_;
  const rayo::ActorHandle<ModelSource> source_;
  const ChoosePlace choose_place_;
  boost::asio::io_context& io_;
  const std::shared_ptr<const ReplicaListener> listener_;
  const uint64_t gateway_;  // this end's number, told to the engine

  std::mutex mutex_;  // guards what follows
  std::condition_variable work_;
  std::deque<Order> orders_;
  bool broken_ = false;  // the engine is gone
  bool stopping_ = false;

  std::thread caller_;
};

}  // namespace serving
