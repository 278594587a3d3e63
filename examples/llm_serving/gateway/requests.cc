#include "examples/llm_serving/gateway/requests.h"

#include "examples/llm_serving/gateway/fields.h"
#include "examples/llm_serving/gateway/parse_generation.h"
#include "examples/llm_serving/gateway/parse_messages.h"

namespace serving::gateway {
namespace {

namespace json = boost::json;

constexpr int32_t kDefaultCompletion = 16;  // tokens, as OpenAI's completions

void require_model(const Fields& fields) {
  fields.required("model");
  if (fields.text("model")->empty()) throw missing("model");
}

ChatRequest chat_of(const Fields& fields) {
  ChatRequest request;
  request.generation = parse_generation(fields);
  request.messages = parse_messages(fields);
  request.tools = parse_tools(fields);
  request.tool_choice = parse_tool_choice(fields, request.tools);
  request.parallel_tool_calls = fields.boolean("parallel_tool_calls").value_or(true);
  if (const json::object* arguments = fields.object("chat_template_kwargs")) request.template_arguments = *arguments;
  const bool wanted = fields.boolean("logprobs").value_or(false);
  const std::optional<int64_t> top = fields.integer("top_logprobs", 0, kMostAlternatives);
  if (top && !wanted)
    throw bad_request("The 'top_logprobs' parameter is only allowed when 'logprobs' is enabled.", "top_logprobs",
                      "invalid_value");
  if (wanted) request.generation.sampling.logprobs = static_cast<int32_t>(top.value_or(0));
  return request;
}

}  // namespace

ChatRequest parse_chat(std::string_view body) {
  const json::object object = parse_body(body);
  const Fields fields(object);
  require_model(fields);
  return chat_of(fields);
}

CompletionRequest parse_completion(std::string_view body) {
  const json::object object = parse_body(body);
  const Fields fields(object);
  require_model(fields);
  CompletionRequest request;
  request.echo = fields.boolean("echo").value_or(false);
  request.generation = parse_generation(fields, request.echo ? 0 : 1);  // 0: the prompt alone is judged
  if (!request.generation.max_tokens) request.generation.max_tokens = kDefaultCompletion;
  request.prompts = parse_prompts(fields, "prompt");
  if (const auto top = fields.integer("logprobs", 0, kMostAlternatives))
    request.generation.sampling.logprobs = static_cast<int32_t>(*top);
  if (fields.integer("best_of", 1, 128).value_or(request.generation.n) != request.generation.n)
    throw bad_request("'best_of' is not supported.", "best_of", "unsupported_parameter");
  if (!fields.text("suffix").value_or("").empty())
    throw bad_request("'suffix' is not supported.", "suffix", "unsupported_parameter");
  return request;
}

EmbeddingRequest parse_embedding(std::string_view body) {
  const json::object object = parse_body(body);
  const Fields fields(object);
  require_model(fields);
  EmbeddingRequest request;
  request.model = *fields.text("model");
  request.inputs = parse_prompts(fields, "input");
  for (const Prompt& input : request.inputs) {
    if (const auto* text = std::get_if<std::string>(&input); text != nullptr && text->empty())
      throw bad_request("Invalid 'input': input cannot be an empty string.", "input", "invalid_value");
  }
  const std::string format = fields.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64") throw invalid_value("encoding_format", format, "'float' and 'base64'");
  request.base64 = format == "base64";
  if (fields.find("dimensions") != nullptr)
    throw bad_request("This model does not support specifying dimensions.", "dimensions", "unsupported_parameter");
  return request;
}

TokenizeRequest parse_tokenize(std::string_view body) {
  const json::object object = parse_body(body);
  const Fields fields(object);
  TokenizeRequest request;
  request.model = fields.text("model").value_or("");
  request.add_special = fields.boolean("add_special_tokens").value_or(fields.boolean("add_special").value_or(true));
  if (fields.find("messages") != nullptr) {
    request.chat = chat_of(fields);
    return request;
  }
  std::optional<std::string> text = fields.text("prompt");  // vLLM's name; llama-server's is "content"
  if (!text) text = fields.text("content");
  if (!text) throw missing("prompt");
  request.text = std::move(*text);
  return request;
}

DetokenizeRequest parse_detokenize(std::string_view body) {
  const json::object object = parse_body(body);
  const Fields fields(object);
  DetokenizeRequest request;
  request.model = fields.text("model").value_or("");
  fields.required("tokens");
  request.tokens = parse_tokens(*fields.array("tokens"), "tokens");
  return request;
}

}  // namespace serving::gateway
