// Which file a model's name means.
#pragma once

#include <string>
#include <vector>

#include "examples/llm_serving/engine/result.h"

namespace serving {

// A path; a name in RAYO_HOME/models (with or without .gguf); or pip:NAME, the one .gguf file inside of that installed
// Python package, which python3 is asked for.
Result<std::string> find_model(const std::string& model);

// RAYO_HOME/models, or ~/.rayo/models.
std::string models_folder();

// "smollm2" of /models/smollm2-00001-of-00003.gguf
std::string model_name_of(const std::string& path);

}  // namespace serving
