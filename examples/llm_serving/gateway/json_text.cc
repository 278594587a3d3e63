#include "examples/llm_serving/gateway/json_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace serving::gateway {
namespace {

namespace json = boost::json;

void append_decimal(std::string& out, double value) {
  if (!std::isfinite(value)) {  // JSON has no word for it
    out += "null";
    return;
  }
  char digits[32];
  const std::string_view text(digits, std::to_chars(digits, digits + sizeof digits, value).ptr - digits);
  out += text;
  if (text.find_first_of(".e") == std::string_view::npos) out += ".0";  // stays a decimal for typed readers
}

// Bytes of the character that begins here, 0 where none does (RFC 3629: no surrogates, nothing longer than needed).
size_t character(std::string_view bytes) {
  const auto at = [&bytes](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || bytes.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
  }
  if ((first == 0xE0 && at(1) < 0xA0) || (first == 0xED && at(1) > 0x9F) || (first == 0xF0 && at(1) < 0x90) ||
      (first == 0xF4 && at(1) > 0x8F))
    return 0;
  return length;
}

}  // namespace

void append_json(std::string& out, const json::value& value) {
  if (value.is_double()) return append_decimal(out, value.get_double());
  if (value.is_array()) {
    const char* before = "[";
    for (const json::value& item : value.get_array()) {
      out += std::exchange(before, ",");
      append_json(out, item);
    }
    out += *before == '[' ? "[]" : "]";
    return;
  }
  if (value.is_object()) {
    const char* before = "{";
    for (const auto& [key, item] : value.get_object()) {
      out += std::exchange(before, ",");
      out += json::serialize(key);
      out += ':';
      append_json(out, item);
    }
    out += *before == '{' ? "{}" : "}";
    return;
  }
  out += json::serialize(value);
}

std::string to_json(const json::value& value) {
  std::string out;
  append_json(out, value);
  return out;
}

double shortest(float value) {
  char digits[32];
  const char* end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  double exact = 0;
  std::from_chars(digits, end, exact);
  return std::isfinite(value) ? exact : static_cast<double>(value);
}

size_t characters(std::string_view bytes) {
  return static_cast<size_t>(std::count_if(
      bytes.begin(), bytes.end(), [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
}

std::string valid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const size_t length = character(bytes);
    if (length == 0)
      out += "\xEF\xBF\xBD";
    else
      out += bytes.substr(0, length);
    bytes.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

}  // namespace serving::gateway
