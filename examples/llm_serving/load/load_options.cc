#include "examples/llm_serving/load/load_options.h"

#include <cstdlib>
#include <functional>
#include <map>
#include <optional>

namespace serving::load {
namespace {

using Problem = std::optional<std::string>;
using Setter = std::function<Problem(LoadOptions&, const std::string&)>;

std::optional<double> decimal(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') return std::nullopt;
  return number;
}

Setter count(int64_t LoadOptions::*member, int64_t least) {
  return [=](LoadOptions& options, const std::string& value) -> Problem {
    const std::optional<double> number = decimal(value);
    const bool good = number && *number >= static_cast<double>(least) && *number <= 1e9 &&
                      *number == static_cast<double>(static_cast<int64_t>(*number));
    if (!good) return "'" + value + "' is no whole number from " + std::to_string(least);
    options.*member = static_cast<int64_t>(*number);
    return std::nullopt;
  };
}

Problem read_rate(LoadOptions& options, const std::string& value) {
  if (value == "inf") return std::nullopt;
  const std::optional<double> rate = decimal(value);
  if (!rate || !(*rate > 0) || *rate > 1e6) return "'" + value + "' is neither a rate above 0 nor 'inf'";
  options.request_rate = *rate;
  return std::nullopt;
}

Problem read_url(LoadOptions& options, const std::string& value) {
  constexpr std::string_view kScheme = "http://";
  if (!value.starts_with(kScheme)) return "'" + value + "' does not begin with http:// (TLS is not spoken here)";
  std::string rest = value.substr(kScheme.size());
  while (rest.ends_with('/')) rest.pop_back();
  if (rest.ends_with("/v1")) rest.resize(rest.size() - 3);
  const size_t slash = rest.find('/');
  options.path = slash == std::string::npos ? "" : rest.substr(slash);
  rest = rest.substr(0, slash);
  const size_t colon = rest.rfind(':');
  const bool named = colon != std::string::npos && rest.find(']', colon) == std::string::npos;
  options.port = named ? rest.substr(colon + 1) : "80";
  options.host = rest.substr(0, named ? colon : rest.size());
  if (options.host.starts_with('[') && options.host.ends_with(']'))
    options.host = options.host.substr(1, options.host.size() - 2);
  if (options.host.empty() || options.port.empty()) return "'" + value + "' names no host or port";
  return std::nullopt;
}

const std::map<std::string, Setter>& setters() {
  static const std::map<std::string, Setter> all = {
      {"--url", read_url},
      {"--model",
       [](LoadOptions& options, const std::string& value) -> Problem { return options.model = value, std::nullopt; }},
      {"--num-prompts", count(&LoadOptions::requests, 1)},
      {"--request-rate", read_rate},
      {"--max-concurrency", count(&LoadOptions::max_concurrency, 1)},
      {"--input-len", count(&LoadOptions::input_words, 1)},
      {"--output-len", count(&LoadOptions::output_tokens, 1)},
      {"--seed", count(&LoadOptions::seed, 0)},
  };
  return all;
}

}  // namespace

std::variant<LoadOptions, WrongUse> parse_load_options(const std::vector<std::string>& arguments) {
  LoadOptions options;
  if (const char* key = std::getenv("OPENAI_API_KEY")) options.key = key;
  bool address = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--help" || word == "-h") options.help = true;
    if (word == "--json") options.json = true;
    if (word == "--help" || word == "-h" || word == "--json") continue;
    const size_t equals = word.find('=');
    const std::string flag = word.substr(0, equals);
    const auto setter = setters().find(flag);
    if (setter == setters().end()) return WrongUse{"there is no flag " + flag, "rayo serve bench --help"};
    if (equals == std::string::npos && i + 1 == arguments.size())
      return WrongUse{flag + " wants a value", "rayo serve bench --help"};
    const std::string value = equals == std::string::npos ? arguments[++i] : word.substr(equals + 1);
    if (const Problem problem = setter->second(options, value))
      return WrongUse{flag + ": " + *problem, "rayo serve bench --help"};
    address |= flag == "--url";
  }
  if (!address && !options.help) return WrongUse{"which server?", "rayo serve bench --url http://127.0.0.1:8000"};
  return options;
}

std::string load_usage() {
  return R"(usage: rayo serve bench --url URL [--model NAME] [--num-prompts N] [--request-rate R|inf] [--max-concurrency N]
                        [--input-len N] [--output-len N] [--seed N] [--json]

Streams chat completions from any OpenAI server and prints what vLLM's `vllm bench serve` prints. A key is taken from
OPENAI_API_KEY.

  --url URL            http://HOST:PORT, with or without /v1
  --model NAME         (default: the first of /v1/models)
  --num-prompts N      requests in all (default 100)
  --request-rate R     open loop: requests come at random, R a second on average (default inf: all at once)
  --max-concurrency N  closed loop: so many at a time, the next when one has ended (default: no limit)
  --input-len N        words of a prompt, at random (default 128); the server counts the tokens
  --output-len N       tokens of each answer (default 64; ignore_eos is asked for)
  --seed N             of prompts and arrivals (default 0)
  --json               one JSON document, with vLLM's keys

The two loops measure different things: a closed one hides the wait of those who would have come meanwhile.
)";
}

}  // namespace serving::load
