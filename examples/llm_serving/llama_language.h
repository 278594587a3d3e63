// A model's tokens and chat template for the gateway, by llama.cpp: the vocabulary alone is loaded, in milliseconds.
#pragma once

#include <memory>
#include <string>

#include "examples/llm_serving/engine/result.h"
#include "examples/llm_serving/gateway/language.h"

namespace serving {

// `max_context`: 0 is what the model was trained for.
Result<std::shared_ptr<const gateway::Language>> load_language(const std::string& model_path, int32_t max_context);

}  // namespace serving
