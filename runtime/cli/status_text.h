// `rayo status` for people: nodes with their devices, actors by name, what waits and why, the last events.
// Pure.
#pragma once

#include <string>

#include "runtime/base/clock.h"
#include "runtime/proto/head.pb.h"

namespace rayo::cli {

std::string status_text(const proto::StatusReply& status, base::WallTime now);

// "10:32:05" today, "2026-11-30 10:32" before; local time.
std::string clock_text(int64_t unix_us, base::WallTime now);
// "4f2a91c03b77": the digits by which people name things; `why` and `logs` take them.
std::string short_id(const proto::Id& id);

}  // namespace rayo::cli
