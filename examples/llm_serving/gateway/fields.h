// Reading the fields of a JSON object that a client sent. null counts as absent, as OpenAI's API has it; what is of
// another type or out of range throws the ApiError that OpenAI answers.
//
//   Fields fields(object);
//   double temperature = fields.decimal("temperature", 0, 2).value_or(1);
//
// A view: the object outlives it.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "examples/llm_serving/gateway/api_error.h"

namespace serving::gateway {

class Fields {
 public:
  // `path`: where the object stands, as in "messages[0]"; empty for the body itself.
  explicit Fields(const boost::json::object& object, std::string path = {}) : object_(object), path_(std::move(path)) {}

  // The value; null where the field is absent or null.
  const boost::json::value* find(std::string_view name) const;
  const boost::json::value& required(std::string_view name) const;

  std::optional<double> decimal(std::string_view name, double least, double most) const;
  std::optional<int64_t> integer(std::string_view name, int64_t least, int64_t most) const;
  std::optional<bool> boolean(std::string_view name) const;
  std::optional<std::string> text(std::string_view name) const;
  const boost::json::array* array(std::string_view name) const;
  const boost::json::object* object(std::string_view name) const;

  // "messages[0].role"
  std::string path(std::string_view name) const;

 private:
  const boost::json::object& object_;
  std::string path_;
};

// "Invalid type for 'stop': expected a string, but got an integer instead."
ApiError invalid_type(const std::string& path, std::string_view expected, const boost::json::value& got);
ApiError invalid_value(const std::string& path, std::string_view value, std::string_view supported);
ApiError missing(const std::string& path);
ApiError empty_array(const std::string& path);
ApiError array_too_long(const std::string& path, size_t most, size_t got);

// A body, which must be an object. Throws 400 for what is not JSON, not UTF-8 or nested too deep.
boost::json::object parse_body(std::string_view body);

}  // namespace serving::gateway
