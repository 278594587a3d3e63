#include "examples/llm_serving/gateway/api_error.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>

namespace serving::gateway {
namespace {

namespace json = boost::json;

constexpr double kLoadingRetry = 2;     // s: a client comes again while a model loads
constexpr int kLongestRetryAfter = 60;  // s; openai-python does not come again at all after more than 120

json::value text_or_null(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(json::string(text));
}

ApiError make(int status, std::string message, std::string type, std::string param, std::string code) {
  ApiError error;
  error.status = status;
  error.message = std::move(message);
  error.type = std::move(type);
  error.param = std::move(param);
  error.code = std::move(code);
  return error;
}

ApiError context_error(int64_t limit, const std::string& asked) {
  return make(400,
              "This model's maximum context length is " + std::to_string(limit) + " tokens. However, " + asked +
                  ". Please reduce the length of the prompt or completion.",
              "invalid_request_error", "messages", "context_length_exceeded");
}

int whole_seconds(double seconds) {
  return std::clamp(static_cast<int>(std::ceil(std::min(seconds, 1e6))), 1, kLongestRetryAfter);
}

}  // namespace

std::string ApiError::body() const {
  const json::object error = {
      {"message", message}, {"type", type}, {"param", text_or_null(param)}, {"code", text_or_null(code)}};
  return json::serialize(json::object{{"error", error}});
}

ApiError bad_request(std::string message, std::string param, std::string code) {
  return make(400, std::move(message), "invalid_request_error", std::move(param), std::move(code));
}

ApiError model_not_found(const std::string& model) {
  return make(404, "The model `" + model + "` does not exist or you do not have access to it.", "invalid_request_error",
              "model", "model_not_found");
}

ApiError context_length_exceeded(int64_t limit, int64_t prompt, int64_t output) {
  return context_error(limit, output > 0 ? "you requested " + std::to_string(prompt + output) + " tokens (" +
                                               std::to_string(prompt) + " in the prompt, " + std::to_string(output) +
                                               " in the completion)"
                                         : "your prompt contains " + std::to_string(prompt) + " tokens");
}

ApiError context_far_exceeded(int64_t limit, int64_t at_least) {
  return context_error(limit, "your prompt contains at least " + std::to_string(at_least) + " tokens");
}

ApiError invalid_api_key(bool given) {
  return make(401,
              given ? "Incorrect API key provided."
                    : "You didn't provide an API key: send it in an Authorization header, as in "
                      "'Authorization: Bearer YOUR_KEY'.",
              "authentication_error", "", "invalid_api_key");
}

ApiError overloaded(std::string message, double retry_after_s) {
  ApiError error = make(429, std::move(message), "rate_limit_error", "", "rate_limit_exceeded");
  error.retry_after_s = whole_seconds(retry_after_s);
  return error;
}

ApiError unavailable(std::string message, double retry_after_s) {
  ApiError error = make(503, std::move(message), "unavailable_error", "", "server_overloaded");
  error.retry_after_s = whole_seconds(retry_after_s);
  return error;
}

ApiError model_loading(double progress) {
  return unavailable("Loading model: " + std::to_string(static_cast<int>(std::floor(progress * 100))) + " %.",
                     kLoadingRetry);
}

ApiError server_error(std::string message) { return make(500, std::move(message), "server_error", "", ""); }

}  // namespace serving::gateway
