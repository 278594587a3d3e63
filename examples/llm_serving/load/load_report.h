// What a load run says about a server, in the form of vLLM's `vllm bench serve`.
//
// TTFT: sent to first text. TPOT: (end - first text) / (tokens - 1), of requests with at least two tokens. ITL: between two pieces
// of a stream. Seconds in, milliseconds out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace serving::load {

// One request, as its client saw it. Seconds since the run began.
struct Sample {
  double sent = 0;
  double first_text = -1;  // -1: none came
  double ended = 0;
  std::vector<double> pieces;  // when each piece of text came, the first included
  int64_t input_tokens = 0;
  int64_t output_tokens = 0;  // as the server counts them; the pieces where it does not say
  std::string error;          // empty: it ended well
};

struct RunFacts {
  std::string url;
  std::string model;
  double request_rate = 0;      // per second; 0: as fast as max_concurrency allows
  int32_t max_concurrency = 0;  // 0: without a limit
  std::vector<double> percentiles{50, 90, 99};
};

// The p-th percentile of what was measured, as numpy's: linear between neighbours. 0 of nothing.
double percentile(std::vector<double> values, double p);

std::string report_text(const RunFacts& facts, const std::vector<Sample>& samples);
// One JSON document, with vLLM's keys.
std::string report_json(const RunFacts& facts, const std::vector<Sample>& samples);

}  // namespace serving::load
