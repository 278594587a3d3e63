// Work on what a stranger sent (a schema, a grammar) that may take any time and memory: done in a child with limits.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "examples/llm_serving/engine/result.h"

namespace serving {

struct ChildLimits {
  std::chrono::milliseconds time{1000};
  uint64_t memory_bytes = 64ull << 20;  // beyond what the process has already
};

// What `work` returns, or the message of the std::exception that it throws. Problem::what says which limit was met.
// `work` runs in a fork of this process: it starts no threads, and nothing that it changes is seen here. Any thread;
// blocks.
Result<std::string> run_bounded(const ChildLimits& limits, const std::function<Result<std::string>()>& work);

}  // namespace serving
