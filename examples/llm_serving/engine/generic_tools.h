// Tool calls for models whose chat template knows of none: the tools stand in the system message, and a grammar lets
// the model answer in one of two forms alone:
//
//   {"tool_calls": [{"name": "get_weather", "arguments": {"city": "Rome"}}]}
//   {"response": "It is sunny."}              (unless a call is required)
#pragma once

#include <string>

#include "examples/llm_serving/engine/chat_answer.h"
#include "examples/llm_serving/engine/result.h"

namespace serving {

struct GenericTools {
  std::string tools;  // JSON, as OpenAI's `tools`
  bool required = false;
  bool parallel = true;
};

// What the model is told of them.
std::string generic_tool_instructions(const GenericTools& tools);
// The JSON schema of its answers.
std::string generic_tool_schema(const GenericTools& tools);
// An answer or its beginning: of a call under way the name once it is whole, and the beginning of its arguments. Text
// that has neither form is content.
ChatAnswer parse_generic_answer(const std::string& text, bool partial);

}  // namespace serving
