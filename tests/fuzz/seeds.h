// What each fuzz target defines beside LLVMFuzzerTestOneInput: the inputs that a run starts from. `PROGRAM`
// with RAYO_FUZZ_SEEDS=DIR writes them there and ends, so that no binary file is committed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rayo::fuzz {

std::vector<std::string> seeds();

inline std::string_view text(const uint8_t* data, size_t size) { return {reinterpret_cast<const char*>(data), size}; }

// Ends the run as a finding where a promise does not hold.
inline void expect(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace rayo::fuzz
