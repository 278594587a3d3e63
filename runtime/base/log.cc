#define FMT_HEADER_ONLY
#define SPDLOG_FMT_EXTERNAL
#include "runtime/base/log.h"

#include <cstdlib>
#include <memory>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace rayo::base {
namespace {

std::shared_ptr<spdlog::logger> make(const char* name, spdlog::level::level_enum level) {
  auto logger = std::make_shared<spdlog::logger>(name, std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_level(level);
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %L %n: %v");
  logger->flush_on(spdlog::level::trace);
  return logger;
}

std::shared_ptr<spdlog::logger>& current() {
  static std::shared_ptr<spdlog::logger> logger = make("rayo", spdlog::level::warn);
  return logger;
}

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kCritical:
      return spdlog::level::critical;
  }
  return spdlog::level::critical;
}

}  // namespace

void Log::write(LogLevel level, fmt::string_view text, fmt::format_args args) {
  spdlog::logger& logger = *current();
  if (logger.should_log(level_of(level))) logger.log(level_of(level), fmt::vformat(text, args));
}

Log& log() {
  static Log log;
  return log;
}

void init_log(const char* name) {
  const char* level = std::getenv("RAYO_LOG");
  current() = make(name, level ? spdlog::level::from_str(level) : spdlog::level::info);
}

}  // namespace rayo::base
