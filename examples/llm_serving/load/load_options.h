// The command line of `rayo serve bench`.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace serving::load {

struct LoadOptions {
  std::string host = "127.0.0.1";
  std::string port = "8000";
  std::string path;   // before /v1/..., as in http://host/prefix
  std::string model;  // empty: the first of /v1/models
  std::string key;    // of OPENAI_API_KEY
  int64_t requests = 100;
  double request_rate = 0;      // per second, in a Poisson process (open loop); 0: all at once
  int64_t max_concurrency = 0;  // 0: without a limit
  int64_t input_words = 128;
  int64_t output_tokens = 64;
  int64_t seed = 0;
  bool json = false;
  bool help = false;
};

struct WrongUse {
  std::string what;
  std::string next;
};

// Without the word `bench`.
std::variant<LoadOptions, WrongUse> parse_load_options(const std::vector<std::string>& arguments);

std::string load_usage();

}  // namespace serving::load
