#include "runtime/cli/json_log.h"

#include <boost/json.hpp>
#include <charconv>
#include <ctime>

#include "runtime/base/text.h"

namespace rayo::cli {
namespace {

namespace json = boost::json;

// Seconds since the epoch of a line that begins as runtime/base/log.cc writes it: "2026-12-01T12:18:38.123 I head: ...".
json::value time_of(const std::string& line) {
  tm parts{};
  const char* end = ::strptime(line.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (!end || *end != '.') return nullptr;
  int milliseconds = 0;
  const char* digits = end + 1;
  const auto read = std::from_chars(digits, line.c_str() + line.size(), milliseconds);
  if (read.ec != std::errc() || read.ptr != digits + 3) return nullptr;
  parts.tm_isdst = -1;
  return static_cast<double>(::mktime(&parts)) + milliseconds / 1e3;
}

}  // namespace

void JsonLog::print(std::string_view line, bool error) {
  const std::string text = base::as_utf8(line);
  const json::object object{
      {"schema", 1},
      {"at", origin_.daemon ? time_of(text) : json::value(nullptr)},
      {"node", origin_.node.empty() ? json::value(nullptr) : json::value(origin_.node)},
      {"pid", origin_.pid > 0 ? json::value(origin_.pid) : json::value(nullptr)},
      {"name", origin_.name},
      {"stream", error || origin_.daemon ? "stderr" : "stdout"},
      {"text", text},
  };
  out_ << json::serialize(object) << '\n';
}

void JsonLog::add(std::string_view bytes, bool error) {
  std::string& rest = rest_[error ? 1 : 0];
  rest.append(bytes);
  size_t start = 0;
  for (size_t end; (end = rest.find('\n', start)) != std::string::npos; start = end + 1)
    print(std::string_view(rest).substr(start, end - start), error);
  rest.erase(0, start);
  out_.flush();
}

void JsonLog::finish() {
  for (const bool error : {false, true}) {
    std::string& rest = rest_[error ? 1 : 0];
    if (!rest.empty()) print(rest, error);
    rest.clear();
  }
  out_.flush();
}

}  // namespace rayo::cli
