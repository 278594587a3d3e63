// Counts and histograms under vLLM's names and buckets, so that its dashboards work unchanged, in Prometheus' text
// form. One owner (the io thread).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "examples/llm_serving/gateway/router.h"

namespace serving::gateway {

// Prometheus' text form: the lines of a family stand together under one head, whatever the number of models.
class MetricsText {
 public:
  // What follows is of this family.
  void family(std::string_view name, std::string_view type, std::string_view help);
  void line(std::string_view name, const std::string& labels, double value);
  std::string text() const;

 private:
  std::vector<std::string> families_;
  std::map<std::string, size_t, std::less<>> places_;
  size_t current_ = 0;
};

class Histogram {
 public:
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size() + 1) {}
  void observe(double value);
  // The lines of NAME_bucket, NAME_sum and NAME_count.
  void append(MetricsText& out, std::string_view name, const std::string& labels) const;

 private:
  std::span<const double> bounds_;
  std::vector<uint64_t> counts_;  // by bucket, the last one without a bound
  double sum_ = 0;
};

// What became of one request; durations in seconds, negative where it did not come so far.
struct RequestRecord {
  std::string finish_reason;  // stop, length, tool_calls, abort, error
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  int64_t longest_output = 0;  // of its choices
  int64_t max_tokens = 0;
  int32_t n = 1;
  double queued = -1;
  double to_first_token = -1;
  double whole = 0;
};

class ModelMetrics {
 public:
  explicit ModelMetrics(std::string model) : model_(std::move(model)) {}

  void token_gap(double seconds) { token_gaps_.observe(seconds); }
  // The gateway's part of one request: from its last byte to its hand-over to an engine, and from a token to its bytes.
  void own_time(double seconds) { own_time_.observe(seconds); }
  void ended(const RequestRecord& record);
  void refused(int status) { ++refusals_[status]; }

  // Everything about this model; `replicas` for gauges and for what the engines count.
  void append(MetricsText& out, const Router& router) const;

 private:
  void append_gauges(MetricsText& out, const Router& router) const;
  void append_counters(MetricsText& out, const Router& router) const;

  std::string model_;
  static const std::vector<double> kFirstToken, kGap, kWhole, kTokens, kChoices, kOwnTime;
  Histogram first_token_{kFirstToken}, token_gaps_{kGap}, per_token_{kGap}, whole_{kWhole}, decode_{kWhole};
  Histogram queue_{kWhole}, prefill_{kWhole}, inference_{kWhole};
  Histogram own_time_{kOwnTime};
  Histogram prompt_{kTokens}, output_{kTokens}, longest_output_{kTokens}, most_tokens_{kTokens}, choices_{kChoices};
  std::map<std::string, uint64_t> finished_;
  std::map<int, uint64_t> refusals_;
};

// "label" as Prometheus quotes it.
std::string label_value(std::string_view text);

}  // namespace serving::gateway
