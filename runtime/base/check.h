// RAYO_CHECK(condition, "why it always holds"): our own invariants only, never what a user, a peer or a disk can cause.
#pragma once

namespace rayo::base {
[[noreturn]] void check_failed(const char* condition, const char* why, const char* file, int line);
}  // namespace rayo::base

#define RAYO_CHECK(condition, why)                                     \
  do {                                                                 \
    if (!(condition)) [[unlikely]]                                     \
      ::rayo::base::check_failed(#condition, why, __FILE__, __LINE__); \
  } while (false)
