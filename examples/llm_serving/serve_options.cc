#include "examples/llm_serving/serve_options.h"

#include <arpa/inet.h>
#include <array>
#include <charconv>
#include <functional>
#include <limits>
#include <map>

namespace serving {
namespace {

constexpr int64_t kMostReplicas = 1024;

std::optional<int64_t> whole(const std::string& text, int64_t least, int64_t most) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least || number > most) return std::nullopt;
  return number;
}

UsageError wrong(std::string what, std::string next = "rayo serve --help") {
  return {.what = std::move(what), .next = std::move(next)};
}

// Reads a flag's value; what is wrong with it, or nothing.
using Setter = std::function<std::optional<UsageError>(ServeOptions&, const std::string&)>;

template <class Number>
Setter number(Number ServeOptions::*member, int64_t least, int64_t most) {
  return [=](ServeOptions& options, const std::string& value) -> std::optional<UsageError> {
    const std::optional<int64_t> read = whole(value, least, most);
    if (!read)
      return wrong("'" + value + "' is no number from " + std::to_string(least) + " to " + std::to_string(most));
    options.*member = static_cast<Number>(*read);
    return std::nullopt;
  };
}

Setter text(std::string ServeOptions::*member) {
  return [=](ServeOptions& options, const std::string& value) -> std::optional<UsageError> {
    if (value.empty()) return wrong("an empty value");
    options.*member = value;
    return std::nullopt;
  };
}

std::optional<UsageError> read_replicas(ServeOptions& options, const std::string& value) {
  options.replicas.reset();
  if (value == "auto") return std::nullopt;
  const std::optional<int64_t> count = whole(value, 1, kMostReplicas);
  if (!count) return wrong("'" + value + "' is neither a number from 1 nor 'auto'");
  options.replicas = static_cast<int32_t>(*count);
  return std::nullopt;
}

std::optional<UsageError> read_size(ServeOptions&, const std::string& value) {
  if (value == "1") return std::nullopt;
  return wrong("a model over several nodes comes with a later version: sizes are 1 until then",
               "rayo serve MODEL --replicas N   (each replica holds the whole model)");
}

constexpr int32_t kAnyCount = std::numeric_limits<int32_t>::max();

const std::map<std::string, Setter>& setters() {
  static const std::map<std::string, Setter> all = {
      {"--name", text(&ServeOptions::name)},
      {"--replicas", read_replicas},
      {"--host", text(&ServeOptions::host)},
      {"--port", number(&ServeOptions::port, 0, 65535)},
      {"--api-key-file", text(&ServeOptions::api_key_file)},
      {"--max-context", number(&ServeOptions::max_context, 1, kAnyCount)},
      {"--parallel", number(&ServeOptions::parallel, 1, 4096)},
      {"--threads", number(&ServeOptions::threads, 1, 4096)},
      {"--step-timeout", number(&ServeOptions::step_timeout, 1, 86400)},
      {"--tensor-parallel-size", read_size},
      {"--pipeline-parallel-size", read_size},
  };
  return all;
}

const std::map<std::string, bool ServeOptions::*>& switches() {
  static const std::map<std::string, bool ServeOptions::*> all = {
      {"--no-auth", &ServeOptions::no_auth}, {"--json", &ServeOptions::json}, {"--detach", &ServeOptions::detach}};
  return all;
}

std::optional<UsageError> read_words(ServeOptions& options, const std::vector<std::string>& words) {
  using Verb = ServeOptions::Verb;
  static const std::map<std::string, Verb> kVerbs = {
      {"status", Verb::kStatus}, {"stop", Verb::kStop}, {"scale", Verb::kScale}};
  if (words.empty() || words[0].empty())
    return wrong("which model?", "rayo serve MODEL   (a .gguf file, a name in models/, or pip:NAME)");
  size_t taken = 1;
  if (const auto verb = kVerbs.find(words[0]); verb != kVerbs.end()) {
    options.verb = verb->second;
    if (options.verb == Verb::kScale) {
      if (words.size() < 2) return wrong("scale to how many replicas?", "rayo serve scale 2");
      if (auto error = read_replicas(options, words[1])) return error;
      taken = 2;
    }
  } else {
    options.model = words[0];
  }
  if (words.size() > taken) return wrong("'" + words[taken] + "' is one word too many");
  return std::nullopt;
}

bool is_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes;
  return host == "localhost" || inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

std::optional<UsageError> check_access(const ServeOptions& options) {
  if (options.verb != ServeOptions::Verb::kServe) return std::nullopt;
  if (!options.api_key_file.empty() && options.no_auth) return wrong("--api-key-file and --no-auth exclude each other");
  if (!is_address(options.host))
    return wrong("--host: '" + options.host + "' is no address",
                 "--host with an address of this machine, localhost, or 0.0.0.0 for all of them");
  if (is_loopback(options.host) || options.no_auth || !options.api_key_file.empty()) return std::nullopt;
  return wrong("others could use " + options.host + ": it needs keys, or a word that it needs none",
               "--api-key-file FILE (one key a line), or --no-auth");
}

}  // namespace

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

std::variant<ServeOptions, UsageError> parse_serve_options(const std::vector<std::string>& arguments) {
  ServeOptions options;
  std::vector<std::string> words;
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string flag = arguments[i];
    if (flag == "--help" || flag == "-h") {
      options.verb = ServeOptions::Verb::kHelp;
      return options;
    }
    if (const auto found = switches().find(flag); found != switches().end()) {
      options.*found->second = true;
      continue;
    }
    if (!flag.starts_with("--")) {
      words.push_back(std::move(flag));
      continue;
    }
    const size_t equals = flag.find('=');
    std::string value = equals == std::string::npos ? "" : flag.substr(equals + 1);
    flag = flag.substr(0, equals);
    const auto setter = setters().find(flag);
    if (setter == setters().end()) return wrong("there is no flag " + flag);
    if (equals == std::string::npos) {
      if (i + 1 == arguments.size()) return wrong(flag + " wants a value");
      value = arguments[++i];
    }
    if (auto error = setter->second(options, value)) {
      error->what = flag + ": " + error->what;
      return *error;
    }
  }
  if (auto error = read_words(options, words)) return *error;
  if (auto error = check_access(options)) return *error;
  return options;
}

std::string serve_usage() {
  return R"(usage: rayo serve MODEL [--name N] [--replicas N|auto] [--host 127.0.0.1] [--port 8000] [--api-key-file F | --no-auth]
                        [--max-context N] [--parallel N] [--threads N] [--step-timeout S] [--detach]
       rayo serve status|stop|scale N [--name N] [--port 8000] [--json]
       rayo serve bench --url URL   (see its --help)

OpenAI's API over the nodes of the cluster: /v1/chat/completions /v1/completions /v1/embeddings /v1/models
/tokenize /detokenize /health /ready /metrics. MODEL is a .gguf file, a name in RAYO_HOME/models, or pip:NAME (the .gguf
inside of that installed Python package). Where the cluster has an endpoint at that port already, MODEL is added to it:
requests say which one they want by `model`.

  --name N          what clients call the model (default: the file's name); of stop and scale: which model is meant. stop
                    without it ends the endpoint, and waits for its end
  --replicas N      engines, each with the whole model, on different nodes where there are enough (default: auto, one for
                    each node whose free memory holds it)
  --host, --port    where to listen; a host other than loopback needs keys or --no-auth; port 0 is any free one
  --api-key-file F  one key a line
  --max-context N   tokens of one request at most (default: what the model was trained for)
  --parallel N      requests that an engine decodes together (default 8)
  --threads N       of one engine (default: the CPUs that it may use)
  --step-timeout S  an engine whose decoding step takes longer is ended; its requests go on elsewhere (default 30 s)
  --detach          come back when the model answers; the endpoint lives in the cluster, on this node, until it is stopped
)";
}

}  // namespace serving
