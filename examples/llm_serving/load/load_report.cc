#include "examples/llm_serving/load/load_report.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>

namespace serving::load {
namespace {

namespace json = boost::json;

constexpr int kWidth = 50;

struct Measures {
  double seconds = 0;
  int64_t good = 0, bad = 0, input = 0, output = 0;
  double peak_tokens = 0;  // in the fullest second
  int64_t peak_requests = 0;
  std::vector<double> ttft, tpot, itl, e2el;  // ms
};

int64_t most_at_a_time(const std::vector<Sample>& samples) {
  std::vector<std::pair<double, int>> edges;
  for (const Sample& sample : samples) {
    edges.emplace_back(sample.sent, 1);
    edges.emplace_back(sample.ended, -1);
  }
  std::sort(edges.begin(), edges.end());
  int64_t now = 0, most = 0;
  for (const auto& [when, change] : edges) most = std::max(most, now += change);
  return most;
}

void measure(const Sample& sample, Measures& all) {
  all.input += sample.input_tokens;
  all.output += sample.output_tokens;
  all.e2el.push_back((sample.ended - sample.sent) * 1e3);
  if (sample.first_text < 0) return;
  all.ttft.push_back((sample.first_text - sample.sent) * 1e3);
  if (sample.output_tokens > 1)
    all.tpot.push_back((sample.ended - sample.first_text) * 1e3 / static_cast<double>(sample.output_tokens - 1));
  for (size_t i = 1; i < sample.pieces.size(); ++i) all.itl.push_back((sample.pieces[i] - sample.pieces[i - 1]) * 1e3);
}

Measures measures_of(const std::vector<Sample>& samples) {
  Measures all;
  std::map<int64_t, double> each_second;
  for (const Sample& sample : samples) {
    all.seconds = std::max(all.seconds, sample.ended);
    if (!sample.error.empty()) {
      ++all.bad;
      continue;
    }
    ++all.good;
    measure(sample, all);
    const double share = sample.pieces.empty()
                             ? 0
                             : static_cast<double>(sample.output_tokens) / static_cast<double>(sample.pieces.size());
    for (double when : sample.pieces) each_second[static_cast<int64_t>(when)] += share;
  }
  for (const auto& [second, tokens] : each_second) all.peak_tokens = std::max(all.peak_tokens, tokens);
  all.peak_requests = most_at_a_time(samples);
  return all;
}

double mean(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double deviation(const std::vector<double>& values) {
  const double middle = mean(values);
  double square = 0;
  for (double value : values) square += (value - middle) * (value - middle);
  return values.empty() ? 0 : std::sqrt(square / static_cast<double>(values.size()));
}

std::string number(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string short_number(double value) { return number(value, value == std::floor(value) ? 0 : 1); }

std::string line(const std::string& name, const std::string& value) {
  char text[128];
  std::snprintf(text, sizeof text, "%-40s %s\n", (name + ":").c_str(), value.c_str());
  return text;
}

std::string heading(const std::string& name, char fill) {
  const int before = (kWidth - static_cast<int>(name.size())) / 2;
  const int after = kWidth - static_cast<int>(name.size()) - before;
  return std::string(static_cast<size_t>(before), fill) + name + std::string(static_cast<size_t>(after), fill) + "\n";
}

std::string block(const std::string& title, const std::string& name, const std::vector<double>& values,
                  const std::vector<double>& percentiles) {
  std::string out = heading(title, '-');
  out += line("Mean " + name + " (ms)", number(mean(values), 2));
  out += line("Median " + name + " (ms)", number(percentile(values, 50), 2));
  for (double p : percentiles) {
    if (p != 50) out += line("P" + short_number(p) + " " + name + " (ms)", number(percentile(values, p), 2));
  }
  return out;
}

double rate(double count, double seconds) { return seconds > 0 ? count / seconds : 0; }

void add_values(json::object& out, const std::string& name, const std::vector<double>& values,
                const std::vector<double>& percentiles) {
  out["mean_" + name + "_ms"] = mean(values);
  out["median_" + name + "_ms"] = percentile(values, 50);
  out["std_" + name + "_ms"] = deviation(values);
  for (double p : percentiles) out["p" + short_number(p) + "_" + name + "_ms"] = percentile(values, p);
}

}  // namespace

double percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double place = p / 100 * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

std::string report_text(const RunFacts& facts, const std::vector<Sample>& samples) {
  const Measures all = measures_of(samples);
  std::string out = heading(" Serving Benchmark Result ", '=');
  out += line("Successful requests", std::to_string(all.good));
  out += line("Failed requests", std::to_string(all.bad));
  if (facts.max_concurrency > 0) out += line("Maximum request concurrency", std::to_string(facts.max_concurrency));
  if (facts.request_rate > 0) out += line("Request rate configured (RPS)", number(facts.request_rate, 2));
  out += line("Benchmark duration (s)", number(all.seconds, 2));
  out += line("Total input tokens", std::to_string(all.input));
  out += line("Total generated tokens", std::to_string(all.output));
  out += line("Request throughput (req/s)", number(rate(static_cast<double>(all.good), all.seconds), 2));
  out += line("Output token throughput (tok/s)", number(rate(static_cast<double>(all.output), all.seconds), 2));
  out += line("Peak output token throughput (tok/s)", number(all.peak_tokens, 2));
  out += line("Peak concurrent requests", number(static_cast<double>(all.peak_requests), 2));
  out +=
      line("Total token throughput (tok/s)", number(rate(static_cast<double>(all.input + all.output), all.seconds), 2));
  out += block("Time to First Token", "TTFT", all.ttft, facts.percentiles);
  out += block("Time per Output Token (excl. 1st token)", "TPOT", all.tpot, facts.percentiles);
  out += block("Inter-token Latency", "ITL", all.itl, facts.percentiles);
  out += block("End-to-end Latency", "E2EL", all.e2el, facts.percentiles);
  return out + std::string(kWidth, '=') + "\n";
}

std::string report_json(const RunFacts& facts, const std::vector<Sample>& samples) {
  const Measures all = measures_of(samples);
  json::object out = {
      {"backend", "openai-chat"},
      {"base_url", facts.url},
      {"model_id", facts.model},
      {"num_prompts", static_cast<int64_t>(samples.size())},
      {"request_rate", facts.request_rate > 0 ? json::value(facts.request_rate) : json::value("inf")},
      {"max_concurrency", facts.max_concurrency > 0 ? json::value(facts.max_concurrency) : json::value()},
      {"duration", all.seconds},
      {"completed", all.good},
      {"failed", all.bad},
      {"total_input_tokens", all.input},
      {"total_output_tokens", all.output},
      {"request_throughput", rate(static_cast<double>(all.good), all.seconds)},
      {"output_throughput", rate(static_cast<double>(all.output), all.seconds)},
      {"total_token_throughput", rate(static_cast<double>(all.input + all.output), all.seconds)},
      {"max_output_tokens_per_s", all.peak_tokens},
      {"max_concurrent_requests", all.peak_requests}};
  add_values(out, "ttft", all.ttft, facts.percentiles);
  add_values(out, "tpot", all.tpot, facts.percentiles);
  add_values(out, "itl", all.itl, facts.percentiles);
  add_values(out, "e2el", all.e2el, facts.percentiles);
  json::array errors;
  for (const Sample& sample : samples) {
    if (!sample.error.empty()) errors.push_back(json::value(sample.error));
  }
  out["errors"] = std::move(errors);
  return json::serialize(out);
}

}  // namespace serving::load
