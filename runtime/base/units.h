// Sizes and durations as people write them: "512MiB", "8GiB", "1000"; "500ms", "10s", "5m", "2h".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace rayo::base {

// Bytes. Plain digits, or a number (a fraction is fine) with B, KiB, MiB, GiB, TiB, KB, MB, GB, TB; InvalidArgument
// otherwise.
StatusOr<int64_t> parse_size(std::string_view text);

// A span of time >= 0: a number with ns, us, ms, s, m, h or d; InvalidArgument otherwise, also for a number without a
// unit.
StatusOr<Duration> parse_duration(std::string_view text);

std::string format_size(int64_t bytes);      // "1.5 GiB"
std::string format_duration(Duration span);  // "1.2 s", "3 m 20 s"

}  // namespace rayo::base
