// What a client did wrong or the service cannot do now, in OpenAI's form:
//
//   {"error": {"message": "...", "type": "invalid_request_error", "param": "messages", "code": "invalid_type"}}
//
// Thrown while a request is read, and answered in one place; a value everywhere else.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

namespace serving::gateway {

struct ApiError : std::exception {
  int status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::string param;  // empty: null
  std::string code;   // empty: null
  // Retry-After, in seconds: clients wait that long and come again. OpenAI's give up beyond 120.
  std::optional<int> retry_after_s;

  const char* what() const noexcept override { return message.c_str(); }
  // The body of an answer, and of the event that ends a stream.
  std::string body() const;
};

ApiError bad_request(std::string message, std::string param = {}, std::string code = {});
ApiError model_not_found(const std::string& model);
ApiError context_length_exceeded(int64_t limit, int64_t prompt, int64_t output);
// Of a prompt that was not counted to its end.
ApiError context_far_exceeded(int64_t limit, int64_t at_least);
ApiError invalid_api_key(bool given);
ApiError overloaded(std::string message, double retry_after_s);   // 429
ApiError unavailable(std::string message, double retry_after_s);  // 503
ApiError model_loading(double progress);                          // 503; 0..1
ApiError server_error(std::string message);                       // 500

}  // namespace serving::gateway
