#include "examples/llm_serving/gateway/fields.h"

#include <charconv>
#include <cmath>

namespace serving::gateway {
namespace {

namespace json = boost::json;

constexpr double kExact = 9007199254740992.0;  // 2^53: a double up to it is one integer
constexpr size_t kDeepest = 64;                // levels of nesting

std::string_view kind_of(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return "a boolean";
    case json::kind::int64:
    case json::kind::uint64:
      return "an integer";
    case json::kind::double_:
      return "a decimal";
    case json::kind::string:
      return "a string";
    case json::kind::array:
      return "an array";
    case json::kind::object:
      return "an object";
  }
  return "a value";
}

std::string number(double value) {
  char digits[32];
  return std::string(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

ApiError out_of_range(const std::string& path, const char* kind, bool above, const std::string& bound,
                      const std::string& got) {
  const std::string code = std::string(kind) + (above ? "_above_max_value" : "_below_min_value");
  return bad_request("Invalid '" + path + "': " + kind + (above ? " above maximum" : " below minimum") +
                         " value. Expected a value " + (above ? "<= " : ">= ") + bound + ", but got " + got +
                         " instead.",
                     path, code);
}

}  // namespace

ApiError invalid_type(const std::string& path, std::string_view expected, const json::value& got) {
  return bad_request("Invalid type for '" + path + "': expected " + std::string(expected) + ", but got " +
                         std::string(kind_of(got)) + " instead.",
                     path, "invalid_type");
}

ApiError invalid_value(const std::string& path, std::string_view value, std::string_view supported) {
  return bad_request("Invalid value: '" + std::string(value.substr(0, 100)) +
                         "'. Supported values are: " + std::string(supported) + ".",
                     path, "invalid_value");
}

ApiError missing(const std::string& path) {
  return bad_request("Missing required parameter: '" + path + "'.", path, "missing_required_parameter");
}

ApiError empty_array(const std::string& path) {
  return bad_request(
      "Invalid '" + path + "': empty array. Expected an array with minimum length 1, but got an empty array instead.",
      path, "empty_array");
}

ApiError array_too_long(const std::string& path, size_t most, size_t got) {
  return bad_request("Invalid '" + path + "': array too long. Expected an array with maximum length " +
                         std::to_string(most) + ", but got an array with length " + std::to_string(got) + " instead.",
                     path, "array_above_max_length");
}

const json::value* Fields::find(std::string_view name) const {
  const json::value* value = object_.if_contains(name);
  return value != nullptr && !value->is_null() ? value : nullptr;
}

const json::value& Fields::required(std::string_view name) const {
  const json::value* value = find(name);
  if (value == nullptr) throw missing(path(name));
  return *value;
}

std::string Fields::path(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

std::optional<double> Fields::decimal(std::string_view name, double least, double most) const {
  const json::value* value = find(name);
  if (value == nullptr) return std::nullopt;
  double got = 0;
  if (value->is_double())
    got = value->get_double();
  else if (value->is_int64())
    got = static_cast<double>(value->get_int64());
  else if (value->is_uint64())
    got = static_cast<double>(value->get_uint64());
  else
    throw invalid_type(path(name), "a decimal", *value);
  if (!(got >= least)) throw out_of_range(path(name), "decimal", false, number(least), number(got));
  if (got > most) throw out_of_range(path(name), "decimal", true, number(most), number(got));
  return got;
}

std::optional<int64_t> Fields::integer(std::string_view name, int64_t least, int64_t most) const {
  const json::value* value = find(name);
  if (value == nullptr) return std::nullopt;
  int64_t got = 0;
  if (value->is_int64()) {
    got = value->get_int64();
  } else if (value->is_uint64()) {
    throw out_of_range(path(name), "integer", true, std::to_string(most), std::to_string(value->get_uint64()));
  } else if (value->is_double()) {
    const double decimal = value->get_double();
    if (std::isfinite(decimal) && std::abs(decimal) > kExact)
      throw out_of_range(path(name), "integer", decimal > 0, std::to_string(decimal > 0 ? most : least),
                         number(decimal));
    if (std::trunc(decimal) != decimal || !std::isfinite(decimal)) throw invalid_type(path(name), "an integer", *value);
    got = static_cast<int64_t>(decimal);
  } else {
    throw invalid_type(path(name), "an integer", *value);
  }
  if (got < least) throw out_of_range(path(name), "integer", false, std::to_string(least), std::to_string(got));
  if (got > most) throw out_of_range(path(name), "integer", true, std::to_string(most), std::to_string(got));
  return got;
}

std::optional<bool> Fields::boolean(std::string_view name) const {
  const json::value* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_bool()) throw invalid_type(path(name), "a boolean", *value);
  return value->get_bool();
}

std::optional<std::string> Fields::text(std::string_view name) const {
  const json::value* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) throw invalid_type(path(name), "a string", *value);
  return std::string(value->get_string());
}

const json::array* Fields::array(std::string_view name) const {
  const json::value* value = find(name);
  if (value != nullptr && !value->is_array()) throw invalid_type(path(name), "an array", *value);
  return value == nullptr ? nullptr : &value->get_array();
}

const json::object* Fields::object(std::string_view name) const {
  const json::value* value = find(name);
  if (value != nullptr && !value->is_object()) throw invalid_type(path(name), "an object", *value);
  return value == nullptr ? nullptr : &value->get_object();
}

json::object parse_body(std::string_view body) {
  json::parse_options options;
  options.max_depth = kDeepest;
  boost::system::error_code error;
  json::value value = json::parse(body, error, {}, options);
  if (error)
    throw bad_request("We could not parse the JSON body of your request: " + error.message() +
                          ". (HINT: This likely means you aren't using your HTTP library correctly. The API expects a "
                          "JSON payload.)",
                      "", "");
  if (!value.is_object())
    throw bad_request("The body of a request is a JSON object, but got " + std::string(kind_of(value)) + " instead.",
                      "", "invalid_type");
  return std::move(value.get_object());
}

}  // namespace serving::gateway
