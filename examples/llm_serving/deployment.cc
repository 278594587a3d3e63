#include "examples/llm_serving/deployment.h"

#include <algorithm>
#include <cstdio>

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

rayo::NodeId Placement::choose(gateway::ReplicaId replica) {
  std::vector<rayo::NodeRecord> nodes = rayo::nodes();
  std::erase_if(nodes, [](const rayo::NodeRecord& node) { return node.state != rayo::NodeState::kAlive; });
  const std::scoped_lock lock(mutex_);
  const rayo::NodeId before = nodes_[replica];
  nodes_.erase(replica);
  const auto rank = [&](const rayo::NodeRecord& node) {
    const auto here =
        std::count_if(nodes_.begin(), nodes_.end(), [&node](const auto& entry) { return entry.second == node.id; });
    return std::tuple(!holds(node.free, bytes_), here, node.id == before, node.id);
  };
  const auto best =
      std::min_element(nodes.begin(), nodes.end(), [&rank](const auto& a, const auto& b) { return rank(a) < rank(b); });
  const rayo::NodeId chosen = best == nodes.end() ? rayo::NodeId{} : best->id;
  nodes_[replica] = chosen;
  return chosen;
}

void Placement::forget(gateway::ReplicaId replica) {
  const std::scoped_lock lock(mutex_);
  nodes_.erase(replica);
}

Deployment::Deployment(boost::asio::io_context& io, EngineOptions options, uint64_t bytes)
    : io_(io), options_(std::move(options)), bytes_(bytes), placement_(bytes) {}

Deployment::~Deployment() {
  for (auto* replicas : {&replicas_, &draining_}) {
    for (auto& [id, replica] : *replicas) end(std::move(replica));
  }
  ending_.join();
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
            dispatcher_->answered(replica, status, now());
          },
      .died =
          [this](gateway::ReplicaId replica, const std::string& why) {
            last_problem_ = why;
            ++deaths_;
            std::fprintf(stderr, "replica %d: %s\n", replica, why.c_str());
            dispatcher_->died(replica, now());
          },
      .admitted = [this](gateway::Attempt attempt,
                         const Admission& admission) { dispatcher_->admitted(attempt, admission, now()); },
      .step = [this](const Step& step) { dispatcher_->step(step, now()); },
  };
  replicas_[id] = std::make_unique<Replica>(
      id, options_, source_,
      [this](gateway::ReplicaId replica) {
        rayo::ActorOptions place = {.node = placement_.choose(replica), .node_soft = true};
        place.resources.memory = static_cast<int64_t>(bytes_);
        return place;
      },
      io_, std::move(listener));
}

void Deployment::end(std::unique_ptr<Replica> replica) {
  boost::asio::post(ending_, [ended = std::shared_ptr<Replica>(std::move(replica))]() mutable { ended.reset(); });
}

json::array Deployment::describe() const {
  json::array list;
  for (const gateway::ReplicaView& view : dispatcher_->router().replicas()) {
    const auto found = replicas_.find(view.id);
    list.push_back(json::object{{"id", view.id},
                                {"node", found == replicas_.end() ? "" : found->second->node()},
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
