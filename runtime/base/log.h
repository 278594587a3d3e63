// A daemon's log: one line an event, with time, level and the daemon's name; to stderr, which `rayo start` points to a
// file.
//
//   log().info("node {} joined from {}", id.hex(), address);
//
// Any thread. Workers and drivers do not log here: what they print is the user's.
#pragma once

#include <cstdint>
#include <fmt/core.h>

namespace rayo::base {

enum class LogLevel { kDebug, kInfo, kWarn, kError, kCritical };

// The text is fmt's, checked by the compiler; arguments are what <fmt/core.h> can print: numbers and strings. What makes
// the line is compiled once, in log.cc: its templates took seconds of each file that logs.
class Log {
 public:
  template <class... Args>
  void debug(fmt::format_string<const Args&...> text, const Args&... args) {
    write(LogLevel::kDebug, text, fmt::make_format_args(args...));
  }
  template <class... Args>
  void info(fmt::format_string<const Args&...> text, const Args&... args) {
    write(LogLevel::kInfo, text, fmt::make_format_args(args...));
  }
  template <class... Args>
  void warn(fmt::format_string<const Args&...> text, const Args&... args) {
    write(LogLevel::kWarn, text, fmt::make_format_args(args...));
  }
  template <class... Args>
  void error(fmt::format_string<const Args&...> text, const Args&... args) {
    write(LogLevel::kError, text, fmt::make_format_args(args...));
  }
  template <class... Args>
  void at(LogLevel level, fmt::format_string<const Args&...> text, const Args&... args) {
    write(level, text, fmt::make_format_args(args...));
  }

 private:
  void write(LogLevel level, fmt::string_view text, fmt::format_args args);
};

// The process's log; before init_log() warnings and above go to stderr.
Log& log();

// As much as one worker's output may take.
constexpr int64_t kMostLogBytes = 64 << 20;

// `name` is "head", "raylet" or "keeper"; level from RAYO_LOG (trace, debug, info, warn, error), default info. A file that
// stderr goes to is cut to its last part when it is larger than `most_bytes`; keeper and daemon write to one.
void init_log(const char* name, int64_t most_bytes = kMostLogBytes);

}  // namespace rayo::base
