// The replicas of one model: as many as are wanted, on different nodes where there are enough. The io thread owns it.
//
//   Deployment deployment(io, options, file);
//   std::shared_ptr<gateway::Model> model = service.add_model(name, language, deployment);
//   deployment.attach(model->dispatcher, source);
//   deployment.scale(2);
//
// With a `name` its engines are detached and called NAME-1, NAME-2 ...: they outlive this process, and the next one takes
// them over with resume().
#pragma once

#include <boost/asio.hpp>
#include <boost/json.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "examples/llm_serving/engine/model_file.h"
#include "examples/llm_serving/engine/result.h"
#include "examples/llm_serving/gateway/dispatcher.h"
#include "examples/llm_serving/replica.h"

namespace serving {

// Which node each replica is on.
class Placement {
 public:
  explicit Placement(uint64_t bytes) : bytes_(bytes) {}
  // Of the living nodes with room for an engine that with the fewest of these replicas. Any thread; asks the cluster.
  rayo::NodeRecord choose(gateway::ReplicaId replica);
  // Where it is in truth: one that is taken over is where it was, and a full node passes one on.
  void note(gateway::ReplicaId replica, const std::string& node);
  void forget(gateway::ReplicaId replica);

 private:
  const uint64_t bytes_;
  std::mutex mutex_;
  std::map<gateway::ReplicaId, std::string> nodes_;  // in hex
};

class Deployment : public gateway::EngineLink {
 public:
  Deployment(boost::asio::io_context& io, EngineOptions options, ModelFile file, std::string name = {});
  ~Deployment() override;

  // Before the first scale(). `source`: hands the model to nodes that lack it.
  void attach(gateway::Dispatcher& dispatcher, rayo::ActorHandle<ModelSource> source) {
    dispatcher_ = &dispatcher;
    source_ = std::move(source);
  }
  // Those of an endpoint before this one, or new ones where they are gone.
  void resume(const std::vector<gateway::ReplicaId>& replicas);
  // New ones start; those that are too many end their work first.
  void scale(int32_t replicas);
  void tick();  // ends those that have drained
  std::vector<gateway::ReplicaId> running() const;
  bool idle() const { return replicas_.empty() && draining_.empty() && ending_count_ == 0; }
  const ModelFile& file() const { return file_; }
  uint64_t bytes() const { return bytes_; }  // of memory that each replica leases
  int32_t wanted() const { return wanted_; }
  // Why the last replica died, and how many did since one was ready.
  const std::string& last_problem() const { return last_problem_; }
  int32_t deaths() const { return deaths_; }
  boost::json::array describe() const;

  void submit(gateway::ReplicaId replica, Request request) override;
  void cancel(gateway::ReplicaId replica, gateway::Attempt attempt) override;

 private:
  void start(gateway::ReplicaId id);
  EnginePlace place(gateway::ReplicaId id);
  void end(std::unique_ptr<Replica> replica);

  boost::asio::io_context& io_;
  const EngineOptions options_;
  const ModelFile file_;
  const uint64_t bytes_;
  const std::string name_;
  gateway::Dispatcher* dispatcher_ = nullptr;
  rayo::ActorHandle<ModelSource> source_;
  Placement placement_;
  int32_t wanted_ = 0;
  gateway::ReplicaId next_ = 1;
  std::string last_problem_;
  int32_t deaths_ = 0;
  std::map<gateway::ReplicaId, std::unique_ptr<Replica>> replicas_;
  std::map<gateway::ReplicaId, std::unique_ptr<Replica>> draining_;
  int32_t ending_count_ = 0;
  boost::asio::thread_pool ending_{1};  // the end of a replica waits for its threads
};

// Weights, and the cache of one request of the longest kind (max_context; 0: what the model was trained for).
uint64_t needed_bytes(const ModelFile& file, int32_t max_context);

// How many living nodes have a CPU and that much memory free, for `--replicas auto`. A problem, with figures: no node has that
// much even when nothing else runs.
Result<int32_t> automatic_replicas(const ModelFile& file, uint64_t bytes);

}  // namespace serving
