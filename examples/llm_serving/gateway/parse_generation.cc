#include "examples/llm_serving/gateway/parse_generation.h"

#include <charconv>
#include <limits>

namespace serving::gateway {
namespace {

namespace json = boost::json;

constexpr int32_t kLongestOutput = std::numeric_limits<int32_t>::max();
constexpr int64_t kMostChoices = 128;  // as OpenAI's
constexpr size_t kMostStops = 64;      // OpenAI's allows 4, local programs use more
constexpr size_t kLongestStop = 1024;  // bytes: this much text is held back
constexpr size_t kMostPrompts = 2048;  // as OpenAI's embeddings
constexpr size_t kMostBiases = 1024;   // as OpenAI's
constexpr size_t kLongestGrammar = 256 << 10;
constexpr double kNoLimit = 1e9;

std::vector<std::string> parse_stop(const Fields& fields) {
  const json::value* value = fields.find("stop");
  if (value == nullptr) return {};
  std::vector<std::string> stops;
  if (value->is_string()) {
    stops.emplace_back(value->get_string());
  } else if (value->is_array()) {
    const json::array& array = value->get_array();
    if (array.size() > kMostStops) throw array_too_long("stop", kMostStops, array.size());
    for (const json::value& item : array) {
      if (!item.is_string()) throw invalid_type("stop[" + std::to_string(stops.size()) + "]", "a string", item);
      stops.emplace_back(item.get_string());
    }
  } else {
    throw invalid_type("stop", "a string or an array of strings", *value);
  }
  for (const std::string& stop : stops) {
    if (stop.empty()) throw bad_request("Invalid 'stop': a stop sequence is not empty.", "stop", "invalid_value");
    if (stop.size() > kLongestStop)
      throw bad_request("Invalid 'stop': string too long. Expected at most " + std::to_string(kLongestStop) + " bytes.",
                        "stop", "string_above_max_length");
  }
  return stops;
}

std::vector<LogitBias> parse_logit_bias(const Fields& fields) {
  std::vector<LogitBias> biases;
  const json::object* object = fields.object("logit_bias");
  if (object == nullptr) return biases;
  if (object->size() > kMostBiases) throw array_too_long("logit_bias", kMostBiases, object->size());
  const Fields values(*object, "logit_bias");
  for (const auto& [key, value] : *object) {
    LogitBias bias;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), bias.token);
    if (error != std::errc() || end != key.data() + key.size() || bias.token < 0)
      throw bad_request("Invalid key in 'logit_bias': '" + std::string(key.substr(0, 40)) +
                            "'. Keys are token numbers, as /tokenize tells them.",
                        "logit_bias", "invalid_value");
    bias.bias = static_cast<float>(values.decimal(key, -100, 100).value_or(0));
    biases.push_back(bias);
  }
  return biases;
}

OutputFormat parse_json_schema(const Fields& format) {
  const json::object* schema = nullptr;
  if (const json::object* named = format.object("json_schema")) {
    const Fields inner(*named, format.path("json_schema"));
    inner.text("name");
    schema = inner.object("schema");
    if (schema == nullptr) throw missing(inner.path("schema"));
  } else {
    throw missing(format.path("json_schema"));
  }
  return {.kind = OutputFormat::Kind::kJsonSchema, .text = json::serialize(*schema)};
}

OutputFormat parse_format(const Fields& fields) {
  OutputFormat format;
  if (const json::object* object = fields.object("response_format")) {
    const Fields inner(*object, "response_format");
    const std::string type = inner.text("type").value_or("");
    if (type.empty()) throw missing("response_format.type");
    if (type == "json_schema") {
      format = parse_json_schema(inner);
    } else if (type == "json_object") {
      format.kind = OutputFormat::Kind::kJsonObject;
      if (const json::object* schema = inner.object("schema"))  // llama-server's way
        format = {.kind = OutputFormat::Kind::kJsonSchema, .text = json::serialize(*schema)};
    } else if (type != "text") {
      throw invalid_value("response_format.type", type, "'text', 'json_object', and 'json_schema'");
    }
  }
  if (std::optional<std::string> grammar = fields.text("grammar"); grammar && !grammar->empty()) {
    if (format.kind != OutputFormat::Kind::kText)
      throw bad_request("'grammar' and 'response_format' exclude each other.", "grammar", "invalid_value");
    if (grammar->size() > kLongestGrammar)
      throw bad_request("Invalid 'grammar': longer than " + std::to_string(kLongestGrammar) + " bytes.", "grammar",
                        "string_above_max_length");
    format = {.kind = OutputFormat::Kind::kGrammar, .text = std::move(*grammar)};
  }
  return format;
}

Sampling parse_sampling(const Fields& fields) {
  const auto decimal = [&fields](std::string_view name, double least, double most, double otherwise) {
    return static_cast<float>(fields.decimal(name, least, most).value_or(otherwise));
  };
  Sampling sampling;
  sampling.temperature = decimal("temperature", 0, 2, 1);
  sampling.top_p = decimal("top_p", 0, 1, 1);
  sampling.min_p = decimal("min_p", 0, 1, 0);
  sampling.typical_p = decimal("typical_p", 0, 1, 1);
  // -1 is vLLM's "all".
  sampling.top_k = static_cast<int32_t>(std::max<int64_t>(0, fields.integer("top_k", -1, 1 << 24).value_or(0)));
  const float repeat = decimal("repeat_penalty", 0, kNoLimit, 1);
  sampling.repetition_penalty = decimal("repetition_penalty", 0, kNoLimit, repeat);
  if (sampling.repetition_penalty <= 0)
    throw bad_request("Invalid 'repetition_penalty': Expected a value > 0.", "repetition_penalty",
                      "decimal_below_min_value");
  sampling.presence_penalty = decimal("presence_penalty", -2, 2, 0);
  sampling.frequency_penalty = decimal("frequency_penalty", -2, 2, 0);
  sampling.logit_bias = parse_logit_bias(fields);
  sampling.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  return sampling;
}

std::optional<int32_t> parse_max_tokens(const Fields& fields, int64_t least) {
  std::optional<int64_t> most = fields.integer("max_completion_tokens", least, kLongestOutput);
  const std::optional<int64_t> older = fields.integer("max_tokens", least, kLongestOutput);
  if (!most) most = older;
  return most ? std::optional<int32_t>(static_cast<int32_t>(*most)) : std::nullopt;
}

}  // namespace

Generation parse_generation(const Fields& fields, int64_t least_tokens) {
  Generation generation;
  generation.model = fields.text("model").value_or("");
  generation.max_tokens = parse_max_tokens(fields, least_tokens);
  generation.n = static_cast<int32_t>(fields.integer("n", 1, kMostChoices).value_or(1));
  generation.stream = fields.boolean("stream").value_or(false);
  if (const json::object* options = fields.object("stream_options")) {
    if (!generation.stream)
      throw bad_request("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options",
                        "invalid_value");
    generation.include_usage = Fields(*options, "stream_options").boolean("include_usage").value_or(false);
  }
  generation.stop = parse_stop(fields);
  generation.sampling = parse_sampling(fields);
  constexpr auto kAny = std::numeric_limits<int64_t>::max();
  if (const auto seed = fields.integer("seed", -kAny - 1, kAny)) {
    generation.has_seed = true;
    generation.sampling.seed = static_cast<uint64_t>(*seed);
  }
  generation.format = parse_format(fields);
  fields.text("user");
  return generation;
}

std::vector<Token> parse_tokens(const json::array& array, const std::string& path) {
  std::vector<Token> tokens;
  tokens.reserve(array.size());
  for (const json::value& item : array) {
    const auto at = [&] { return path + "[" + std::to_string(tokens.size()) + "]"; };
    if (!item.is_int64()) throw invalid_type(at(), "an integer", item);
    if (item.get_int64() < 0 || item.get_int64() > std::numeric_limits<Token>::max())
      throw bad_request("Invalid '" + at() + "': " + std::to_string(item.get_int64()) + " is no token number.", path,
                        "invalid_value");
    tokens.push_back(static_cast<Token>(item.get_int64()));
  }
  return tokens;
}

std::vector<Prompt> parse_prompts(const Fields& fields, std::string_view name) {
  const json::value& value = fields.required(name);
  const std::string path = fields.path(name);
  if (value.is_string()) return {std::string(value.get_string())};
  if (!value.is_array()) throw invalid_type(path, "a string or an array", value);
  const json::array& array = value.get_array();
  if (array.empty()) throw empty_array(path);
  if (array[0].is_number()) return {parse_tokens(array, path)};
  if (array.size() > kMostPrompts) throw array_too_long(path, kMostPrompts, array.size());
  std::vector<Prompt> prompts;
  for (const json::value& item : array) {
    const std::string at = path + "[" + std::to_string(prompts.size()) + "]";
    if (item.is_string()) {
      prompts.emplace_back(std::string(item.get_string()));
    } else if (item.is_array()) {
      if (item.get_array().empty()) throw empty_array(at);
      prompts.emplace_back(parse_tokens(item.get_array(), at));
    } else {
      throw invalid_type(at, "a string or an array of token numbers", item);
    }
  }
  return prompts;
}

}  // namespace serving::gateway
