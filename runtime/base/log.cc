#define FMT_HEADER_ONLY
#define SPDLOG_FMT_EXTERNAL
#include "runtime/base/log.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <mutex>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/fd.h"
#include "runtime/base/text.h"

namespace rayo::base {
namespace {

// Standard error, a whole line a write; a file there stays within its budget.
class StandardError final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit StandardError(int64_t most_bytes) : most_bytes_(most_bytes) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& line) override {
    spdlog::memory_buf_t text;
    formatter_->format(line, text);
    for (size_t at = 0; at < text.size();) {
      const ssize_t written = ::write(STDERR_FILENO, text.data() + at, text.size() - at);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return;  // a full disk: nobody can be told
      at += static_cast<size_t>(written);
    }
    since_looked_ += static_cast<int64_t>(text.size());
    if (since_looked_ >= most_bytes_ / 16) keep_budget();
  }
  void flush_() override {}

 private:
  void keep_budget() {
    since_looked_ = 0;
    struct stat found {};
    if (::fstat(STDERR_FILENO, &found) != 0 || !S_ISREG(found.st_mode) || found.st_size <= most_bytes_) return;
    // The descriptor itself is for writing alone.
    const Fd file(::open("/proc/self/fd/2", O_RDWR | O_APPEND | O_CLOEXEC));
    if (!file) return;
    const off_t from = found.st_size - most_bytes_ / 4;
    std::string kept(static_cast<size_t>(found.st_size - from), '\0');
    const ssize_t got = ::pread(file.get(), kept.data(), kept.size(), from);
    kept.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    kept.erase(0, kept.find('\n') + 1);  // of whole lines
    if (::ftruncate(file.get(), 0) != 0) return;
    kept.insert(0, cat("[rayo: what stood here before was cut, since the file had ", found.st_size, " bytes]\n"));
    (void)!::write(file.get(), kept.data(), kept.size());
  }

  int64_t most_bytes_;
  int64_t since_looked_ = 0;
};

std::shared_ptr<spdlog::logger> make(const char* name, spdlog::level::level_enum level,
                                     int64_t most_bytes = kMostLogBytes) {
  auto logger = std::make_shared<spdlog::logger>(name, std::make_shared<StandardError>(most_bytes));
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

void init_log(const char* name, int64_t most_bytes) {
  const char* level = std::getenv("RAYO_LOG");
  current() = make(name, level ? spdlog::level::from_str(level) : spdlog::level::info, most_bytes);
}

}  // namespace rayo::base
