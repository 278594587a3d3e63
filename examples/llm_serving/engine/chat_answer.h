// What a model answered, as OpenAI's assistant message has it.
#pragma once

#include <string>
#include <vector>

namespace serving {

struct ToolCall {
  std::string id;  // the model's own, often empty
  std::string name;
  std::string arguments;  // JSON; of a part of an answer: the beginning of it
  friend bool operator==(const ToolCall&, const ToolCall&) = default;
};

struct ChatAnswer {
  std::string content;
  std::string reasoning;
  std::vector<ToolCall> tool_calls;
  friend bool operator==(const ChatAnswer&, const ChatAnswer&) = default;
};

}  // namespace serving
