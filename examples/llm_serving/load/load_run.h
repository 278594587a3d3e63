// Sends the requests of a plan to a server and notes when what came.
//
// One thread: its io context runs a coroutine for each request under way. Each has a connection of its own, made before its clock
// starts.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "examples/llm_serving/load/load_options.h"
#include "examples/llm_serving/load/load_report.h"

namespace serving::load {

struct LoadResult {
  RunFacts facts;
  std::vector<Sample> samples;
};

// A text instead where the server cannot be reached, or has no model.
std::variant<LoadResult, std::string> run_load(const LoadOptions& options);

// `rayo serve bench`: parses, runs, prints; the exit code.
int bench(const std::vector<std::string>& arguments);

}  // namespace serving::load
