#include "runtime/base/units.h"

#include <array>
#include <charconv>
#include <cmath>

#include "runtime/base/text.h"

namespace rayo::base {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr double kKi = 1024.0;
constexpr std::array kSizes{
    Unit{"", 1},
    Unit{"b", 1},
    Unit{"kib", kKi},
    Unit{"mib", kKi* kKi},
    Unit{"gib", kKi* kKi* kKi},
    Unit{"tib", kKi* kKi* kKi* kKi},
    Unit{"kb", 1e3},
    Unit{"mb", 1e6},
    Unit{"gb", 1e9},
    Unit{"tb", 1e12},
};
constexpr std::array kSpans{
    Unit{"ns", 1},   Unit{"us", 1e3},   Unit{"ms", 1e6},    Unit{"s", 1e9},
    Unit{"m", 60e9}, Unit{"h", 3600e9}, Unit{"d", 86400e9},
};

template <size_t N>
StatusOr<int64_t> parse(std::string_view text, const std::array<Unit, N>& units, std::string_view kind,
                        std::string_view examples) {
  std::string_view trimmed = trim(text);
  size_t digits = std::min(trimmed.find_first_not_of("0123456789."), trimmed.size());
  std::string unit = lower(trim(trimmed.substr(digits)));
  double number = 0;
  auto [end, error] = std::from_chars(trimmed.data(), trimmed.data() + digits, number);
  if (digits > 0 && error == std::errc() && end == trimmed.data() + digits) {
    for (const Unit& candidate : units) {
      if (candidate.name != unit) continue;
      double value = std::round(number * candidate.factor);
      if (value < 9.2e18) return static_cast<int64_t>(value);
    }
  }
  return failed(absl::StatusCode::kInvalidArgument, cat("'", text, "' is not a ", kind),
                cat("write it like ", examples));
}

}  // namespace

StatusOr<int64_t> parse_size(std::string_view text) {
  return parse(text, kSizes, "size", "512MiB, 8GiB or plain bytes");
}

StatusOr<Duration> parse_duration(std::string_view text) {
  RAYO_ASSIGN_OR_RETURN(int64_t span, parse(text, kSpans, "duration", "500ms, 10s or 5m"));
  return Duration(span);
}

std::string format_size(int64_t bytes) {
  constexpr std::array kNames = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t name = 0;
  while (std::abs(value) >= kKi && name + 1 < kNames.size()) value /= kKi, ++name;
  return name == 0 ? cat(bytes, " B") : cat(fixed(value, 1), " ", kNames[name]);
}

std::string format_duration(Duration span) {
  double s = seconds(span);
  if (s < 1e-3) return cat(fixed(s * 1e6, 0), " us");
  if (s < 1) return cat(fixed(s * 1e3, 0), " ms");
  if (s < 60) return cat(fixed(s, 1), " s");
  auto whole = static_cast<int64_t>(s);
  if (whole < 3600) return cat(whole / 60, " m ", whole % 60, " s");
  if (whole < 86400) return cat(whole / 3600, " h ", whole / 60 % 60, " m");
  return cat(whole / 86400, " d ", whole / 3600 % 24, " h");
}

}  // namespace rayo::base
