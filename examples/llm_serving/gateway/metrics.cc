#include "examples/llm_serving/gateway/metrics.h"

#include <algorithm>
#include <charconv>

namespace serving::gateway {
namespace {

std::string number(double value) {
  char digits[32];
  return std::string(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

}  // namespace

void MetricsText::family(std::string_view name, std::string_view type, std::string_view help) {
  const auto found = places_.find(name);
  current_ = found == places_.end() ? families_.size() : found->second;
  if (found != places_.end()) return;
  places_.emplace(name, current_);
  // The family of a counter is named without _total in OpenMetrics and with it here, as Prometheus' text form has it.
  std::string head = "# HELP ";
  head.append(name).append(" ").append(help).append("\n# TYPE ").append(name).append(" ").append(type).append("\n");
  families_.push_back(std::move(head));
}

void MetricsText::line(std::string_view name, const std::string& labels, double value) {
  families_[current_].append(name).append("{").append(labels).append("} ").append(number(value)).append("\n");
}

std::string MetricsText::text() const {
  std::string all;
  for (const std::string& family : families_) all += family;
  return all;
}

// vLLM's, of its metrics/loggers.
const std::vector<double> ModelMetrics::kFirstToken = {
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560};
const std::vector<double> ModelMetrics::kGap = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                                                0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
const std::vector<double> ModelMetrics::kWhole = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                                  30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
const std::vector<double> ModelMetrics::kTokens = {1,   2,    5,    10,   20,    50,    100,   200,
                                                   500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
const std::vector<double> ModelMetrics::kChoices = {1, 2, 5, 10, 20};
// Around the budget of 1 ms.
const std::vector<double> ModelMetrics::kOwnTime = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
                                                    0.01,   0.025,   0.05,   0.1,   0.25,   1};

void Histogram::observe(double value) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  ++counts_[static_cast<size_t>(bucket)];
  sum_ += value;
}

void Histogram::append(MetricsText& out, std::string_view name, const std::string& labels) const {
  uint64_t below = 0;
  const std::string bucket = std::string(name) + "_bucket";
  for (size_t i = 0; i < counts_.size(); ++i) {
    below += counts_[i];
    const std::string bound = i < bounds_.size() ? number(bounds_[i]) : "+Inf";
    out.line(bucket, labels + ",le=\"" + bound + "\"", static_cast<double>(below));
  }
  out.line(std::string(name) + "_sum", labels, sum_);
  out.line(std::string(name) + "_count", labels, static_cast<double>(below));
}

void ModelMetrics::ended(const RequestRecord& record) {
  ++finished_[record.finish_reason];
  whole_.observe(record.whole);
  prompt_.observe(static_cast<double>(record.prompt_tokens));
  output_.observe(static_cast<double>(record.output_tokens));
  longest_output_.observe(static_cast<double>(record.longest_output));
  if (record.max_tokens > 0) most_tokens_.observe(static_cast<double>(record.max_tokens));
  choices_.observe(record.n);
  if (record.to_first_token < 0) return;
  first_token_.observe(record.to_first_token);
  decode_.observe(record.whole - record.to_first_token);
  if (record.queued >= 0) {
    queue_.observe(record.queued);
    prefill_.observe(record.to_first_token - record.queued);
    inference_.observe(record.whole - record.queued);
  }
  if (record.output_tokens > 1)
    per_token_.observe((record.whole - record.to_first_token) / static_cast<double>(record.output_tokens - 1));
}

void ModelMetrics::append(MetricsText& out, const Router& router) const {
  append_gauges(out, router);
  append_counters(out, router);
  const std::string labels = "model_name=" + label_value(model_) + ",engine=\"0\"";
  const auto histogram = [&](std::string_view name, std::string_view help, const Histogram& of) {
    out.family(name, "histogram", help);
    of.append(out, name, labels);
  };
  histogram("vllm:time_to_first_token_seconds", "From arrival to the first token.", first_token_);
  histogram("vllm:inter_token_latency_seconds", "Between two tokens of a request.", token_gaps_);
  histogram("vllm:request_time_per_output_token_seconds", "Mean time per token after the first.", per_token_);
  histogram("vllm:e2e_request_latency_seconds", "From arrival to the end.", whole_);
  histogram("vllm:request_queue_time_seconds", "In an engine's queue.", queue_);
  histogram("vllm:request_prefill_time_seconds", "From the queue's end to the first token.", prefill_);
  histogram("vllm:request_inference_time_seconds", "From the queue's end to the end.", inference_);
  histogram("vllm:request_decode_time_seconds", "From the first token to the end.", decode_);
  histogram("vllm:request_prompt_tokens", "Tokens of the prompt.", prompt_);
  histogram("vllm:request_generation_tokens", "Tokens of the output.", output_);
  histogram("vllm:request_max_num_generation_tokens", "Tokens of the longest of its choices.", longest_output_);
  histogram("vllm:request_params_max_tokens", "The max_tokens asked for.", most_tokens_);
  histogram("vllm:request_params_n", "The n asked for.", choices_);
  histogram("rayo:gateway_time_seconds",
            "The gateway's own part: from a request's last byte to an engine, and from a token to its bytes.",
            own_time_);
}

void ModelMetrics::append_gauges(MetricsText& out, const Router& router) const {
  struct Gauge {
    const char* name;
    const char* help;
    double (*of)(const ReplicaView&);
  };
  static constexpr Gauge kGauges[] = {
      {"vllm:num_requests_running", "Requests in the batch.",
       [](const ReplicaView& r) -> double { return r.status.running; }},
      {"vllm:num_requests_waiting", "Requests in the engine's queue.",
       [](const ReplicaView& r) -> double { return r.status.waiting; }},
      {"vllm:kv_cache_usage_perc", "Part of the KV cache in use, 1 is all of it.",
       [](const ReplicaView& r) -> double {
         return r.status.kv_tokens > 0 ? static_cast<double>(r.status.kv_used_tokens) / r.status.kv_tokens : 0;
       }},
      {"rayo:tokens_per_second", "Output of the last 10 s.",
       [](const ReplicaView& r) -> double { return r.status.tokens_per_second; }},
      {"rayo:replica_up", "1 where the replica answers and is ready.",
       [](const ReplicaView& r) -> double {
         return r.state == ReplicaState::kReady || r.state == ReplicaState::kHanging ? 1 : 0;
       }},
      {"rayo:model_load_progress", "Part of the weights that is loaded.",
       [](const ReplicaView& r) -> double { return r.status.load_progress; }},
  };
  const std::vector<ReplicaView> replicas = router.replicas();
  for (const Gauge& gauge : kGauges) {
    out.family(gauge.name, "gauge", gauge.help);
    for (const ReplicaView& replica : replicas)
      out.line(gauge.name, "model_name=" + label_value(model_) + ",engine=\"" + std::to_string(replica.id) + "\"",
               gauge.of(replica));
  }
}

void ModelMetrics::append_counters(MetricsText& out, const Router& router) const {
  struct Counter {
    const char* name;
    const char* help;
    uint64_t EngineStatus::*of;
  };
  static constexpr Counter kCounters[] = {
      {"vllm:prompt_tokens_total", "Tokens of prompts.", &EngineStatus::prompt_tokens},
      {"vllm:generation_tokens_total", "Tokens of outputs.", &EngineStatus::output_tokens},
      {"vllm:prefix_cache_queries_total", "Tokens of prompts that were looked for in the KV cache.",
       &EngineStatus::prompt_tokens},
      {"vllm:prefix_cache_hits_total", "Tokens of prompts that were found there.", &EngineStatus::cached_tokens},
      {"vllm:num_preemptions_total", "Requests that had to give their KV back.", &EngineStatus::preemptions},
  };
  const std::string model = "model_name=" + label_value(model_);
  const std::vector<ReplicaView> replicas = router.replicas();
  for (const Counter& counter : kCounters) {
    out.family(counter.name, "counter", counter.help);
    for (const ReplicaView& replica : replicas)
      out.line(counter.name, model + ",engine=\"" + std::to_string(replica.id) + "\"",
               static_cast<double>(replica.status.*counter.of));
  }
  out.family("vllm:request_success_total", "counter", "Requests by how they ended.");
  for (const auto& [reason, count] : finished_)
    out.line("vllm:request_success_total", model + ",engine=\"0\",finished_reason=" + label_value(reason),
             static_cast<double>(count));
  out.family("rayo:requests_refused_total", "counter", "Requests that were answered with an error, by status.");
  for (const auto& [status, count] : refusals_)
    out.line("rayo:requests_refused_total", model + ",status=\"" + std::to_string(status) + "\"",
             static_cast<double>(count));
  out.family("rayo:replays_total", "counter", "Requests that went on with another replica.");
  out.line("rayo:replays_total", model, static_cast<double>(router.moves()));
}

std::string label_value(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

}  // namespace serving::gateway
