#include "runtime/base/pid_file.h"

#include <charconv>

#include "runtime/base/text.h"

namespace rayo::base {
namespace {

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

std::string boot_id() {
  auto id = read_file("/proc/sys/kernel/random/boot_id");
  return id.ok() ? std::string(trim(*id)) : std::string("unknown");
}

std::optional<uint64_t> start_ticks(pid_t pid) {
  auto stat = read_file(cat("/proc/", pid, "/stat"));
  if (!stat.ok()) return std::nullopt;
  // The name in parentheses may hold anything; what follows the last ')' is " STATE PPID ...", the 22nd field
  // of all the start.
  size_t name_end = stat->rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  auto fields = split(std::string_view(*stat).substr(name_end + 1), ' ');
  constexpr size_t kState = 1, kStart = 20;
  if (fields.size() <= kStart || fields[kState] == "Z" || fields[kState] == "X") return std::nullopt;
  return parse_number<uint64_t>(fields[kStart]);
}

std::optional<pid_t> live_pid(const Path& pid_file) {
  auto content = read_file(pid_file);
  if (!content.ok()) return std::nullopt;
  auto fields = split(trim(*content), ' ');
  if (fields.size() != 3) return std::nullopt;
  auto pid = parse_number<pid_t>(fields[0]);
  if (!pid || *pid <= 0 || fields[2] != boot_id()) return std::nullopt;
  auto ticks = start_ticks(*pid);
  if (!ticks || cat(*ticks) != fields[1]) return std::nullopt;
  return pid;
}

Status write_pid_file(const Path& pid_file, pid_t pid) {
  auto ticks = start_ticks(pid);
  if (!ticks) {  // gone, or we may not look: too many files open
    auto stat = read_file(cat("/proc/", pid, "/stat"));
    if (!stat.ok() && stat.status().code() != absl::StatusCode::kNotFound)
      return within(stat.status(), cat("cannot write ", pid_file.string()));
    return failed(absl::StatusCode::kNotFound, cat("cannot write ", pid_file.string(), ": process ", pid, " is gone"));
  }
  return write_private_file(pid_file, cat(pid, " ", *ticks, " ", boot_id(), "\n"));
}

}  // namespace rayo::base
