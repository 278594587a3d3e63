#include "examples/llm_serving/deployment.h"

#include <algorithm>
#include <cstdio>

#include "examples/llm_serving/endpoint_actor.h"
#include "examples/llm_serving/engine/offload.h"
#include "examples/llm_serving/gpu_lease.h"

namespace serving {
namespace {

namespace json = boost::json;

gateway::Instant now() { return std::chrono::steady_clock::now(); }

double amount(const std::map<std::string, double>& resources, const char* name) {
  const auto found = resources.find(name);
  return found == resources.end() ? 0 : found->second;
}

bool holds(const std::map<std::string, double>& resources, uint64_t bytes) {
  return amount(resources, "cpu") >= 1 && amount(resources, "memory") >= static_cast<double>(bytes);
}

}  // namespace

rayo::NodeRecord Placement::choose(gateway::ReplicaId replica) {
  std::vector<rayo::NodeRecord> nodes = rayo::nodes();
  std::erase_if(nodes, [](const rayo::NodeRecord& node) { return node.state != rayo::NodeState::kAlive; });
  const std::scoped_lock lock(mutex_);
  const std::string before = nodes_[replica];
  nodes_.erase(replica);
  const auto rank = [&](const rayo::NodeRecord& node) {
    const std::string hex = node.id.hex();
    const auto here =
        std::count_if(nodes_.begin(), nodes_.end(), [&hex](const auto& entry) { return entry.second == hex; });
    return std::tuple(!holds(node.free, bytes_), here, hex == before, node.id);
  };
  const auto best =
      std::min_element(nodes.begin(), nodes.end(), [&rank](const auto& a, const auto& b) { return rank(a) < rank(b); });
  if (best == nodes.end()) return {};
  nodes_[replica] = best->id.hex();
  return *best;
}

void Placement::note(gateway::ReplicaId replica, const std::string& node) {
  const std::scoped_lock lock(mutex_);
  if (const auto found = nodes_.find(replica); found != nodes_.end()) found->second = node;
}

void Placement::forget(gateway::ReplicaId replica) {
  const std::scoped_lock lock(mutex_);
  nodes_.erase(replica);
}

Deployment::Deployment(boost::asio::io_context& io, EngineOptions options, ModelFile file, std::string name)
    : io_(io),
      options_(std::move(options)),
      file_(std::move(file)),
      bytes_(needed_bytes(file_, options_.max_context)),
      name_(std::move(name)),
      placement_(bytes_) {}

Deployment::~Deployment() {
  for (auto* replicas : {&replicas_, &draining_}) {
    for (auto& [id, replica] : *replicas) end(std::move(replica));
  }
  ending_.join();
}

void Deployment::resume(const std::vector<gateway::ReplicaId>& replicas) {
  for (const gateway::ReplicaId id : replicas) {
    start(id);
    next_ = std::max(next_, id + 1);
  }
  wanted_ = static_cast<int32_t>(replicas_.size());
}

std::vector<gateway::ReplicaId> Deployment::running() const {
  std::vector<gateway::ReplicaId> ids;
  for (const auto& [id, replica] : replicas_) ids.push_back(id);
  return ids;
}

void Deployment::scale(int32_t replicas) {
  wanted_ = replicas;
  while (static_cast<int32_t>(replicas_.size()) < wanted_) start(next_++);
  while (static_cast<int32_t>(replicas_.size()) > wanted_) {
    const auto last = std::prev(replicas_.end());
    dispatcher_->drain(last->first);
    draining_.insert(replicas_.extract(last));
  }
}

void Deployment::tick() {
  for (auto at = draining_.begin(); at != draining_.end();) {
    if (!dispatcher_->router().idle(at->first)) {
      ++at;
      continue;
    }
    dispatcher_->remove(at->first, now());
    placement_.forget(at->first);
    end(std::move(at->second));
    at = draining_.erase(at);
  }
}

void Deployment::start(gateway::ReplicaId id) {
  dispatcher_->add_replica(id, options_.parallel, now());
  ReplicaListener listener = {
      .answered =
          [this](gateway::ReplicaId replica, const EngineStatus& status) {
            if (status.state == "ready") deaths_ = 0;
            placement_.note(replica, status.node);
            dispatcher_->answered(replica, status, now());
          },
      .died =
          [this](gateway::ReplicaId replica, const std::string& why) {
            last_problem_ = why;
            ++deaths_;
            std::fprintf(stderr, "replica %d: %s\n", replica, why.c_str());
            dispatcher_->died(replica, now());
          },
      .admitted = [this](
                      gateway::Attempt attempt, const Admission& admission,
                      gateway::Instant handed_over) { dispatcher_->admitted(attempt, admission, handed_over, now()); },
      .step = [this](gateway::ReplicaId replica, const Step& step,
                     gateway::Instant arrived) { dispatcher_->step(replica, step, arrived); },
  };
  replicas_[id] = std::make_unique<Replica>(
      id, source_, [this](gateway::ReplicaId replica) { return place(replica); }, io_, std::move(listener));
}

// Of the replica's thread.
EnginePlace Deployment::place(gateway::ReplicaId id) {
  const rayo::NodeRecord node = placement_.choose(id);
  const int32_t context = options_.max_context > 0 ? options_.max_context : file_.trained_context;
  const GpuLease gpu = plan_gpu_lease(node, file_, default_kv_tokens(context, options_.parallel), built_with_cuda());
  EnginePlace place = {.actor = {.node = node.id, .node_soft = true}, .engine = options_};
  place.engine.gpu_memory = gpu.bytes;
  place.engine.cpu_only = gpu.cpu_only;
  place.actor.resources.memory = static_cast<int64_t>(bytes_);
  place.actor.resources.gpu_memory = static_cast<int64_t>(gpu.bytes);
  if (name_.empty()) return place;
  place.actor.name = name_ + "-" + std::to_string(id);
  place.actor.name_space = kServeNamespace;
  place.actor.get_if_exists = true;
  place.actor.lifetime = rayo::Lifetime::kDetached;
  return place;
}

// Counted until everything that it has told is handled: it was posted before.
void Deployment::end(std::unique_ptr<Replica> replica) {
  ++ending_count_;
  boost::asio::post(ending_, [this, ended = std::shared_ptr<Replica>(std::move(replica))]() mutable {
    ended.reset();
    boost::asio::post(io_, [this] { --ending_count_; });
  });
}

json::array Deployment::describe() const {
  json::array list;
  for (const gateway::ReplicaView& view : dispatcher_->router().replicas()) {
    list.push_back(json::object{{"id", view.id},
                                {"node", view.state == gateway::ReplicaState::kDead ? "" : view.status.node},
                                {"state", gateway::name_of(view.state)},
                                {"load_progress", view.status.load_progress},
                                {"cpu_variant", view.status.cpu_variant},
                                {"device", view.status.device},
                                {"running", view.status.running},
                                {"waiting", view.status.waiting},
                                {"tokens_per_second", view.status.tokens_per_second},
                                {"kv_tokens", view.status.kv_tokens},
                                {"kv_used_tokens", view.status.kv_used_tokens}});
  }
  return list;
}

void Deployment::submit(gateway::ReplicaId replica, Request request) {
  for (auto* replicas : {&replicas_, &draining_}) {
    if (const auto found = replicas->find(replica); found != replicas->end())
      return found->second->submit(std::move(request));
  }
}

void Deployment::cancel(gateway::ReplicaId replica, gateway::Attempt attempt) {
  for (auto* replicas : {&replicas_, &draining_}) {
    if (const auto found = replicas->find(replica); found != replicas->end()) return found->second->cancel(attempt);
  }
}

uint64_t needed_bytes(const ModelFile& file, int32_t max_context) {
  const int32_t tokens = max_context > 0 ? max_context : file.trained_context;
  return file.size_bytes + file.kv_bytes_per_token * static_cast<uint64_t>(std::max(tokens, 0));
}

Result<int32_t> automatic_replicas(const ModelFile& file, uint64_t bytes) {
  int32_t count = 0;
  uint64_t most = 0;
  for (const rayo::NodeRecord& node : rayo::nodes()) {
    if (node.state != rayo::NodeState::kAlive || amount(node.total, "cpu") < 1) continue;
    most = std::max(most, static_cast<uint64_t>(amount(node.total, "memory")));
    if (holds(node.free, bytes)) ++count;
  }
  if (most >= bytes) return count;
  return Problem{file.name + " needs " + bytes_text(bytes) + " (weights " + bytes_text(file.size_bytes) +
                     ", and a KV cache for one request), and no node with CPUs has more than " + bytes_text(most) +
                     " of memory",
                 "use a smaller model or --max-context, or add a node: rayo status"};
}

}  // namespace serving
