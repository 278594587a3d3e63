#include "examples/llm_serving/engine/generic_tools.h"

#include <json.h>
#include <string_view>

namespace serving {
namespace {

common_json function_of(const common_json& tool) { return tool.contains("function") ? tool.at("function") : tool; }

common_json object_of(common_json properties, const std::string& required) {
  common_json object = common_json::parse(R"({"type": "object", "additionalProperties": false})");
  object["properties"] = std::move(properties);
  object["required"] = common_json::parse(required);
  return object;
}

// Reads JSON that may end anywhere.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool at_end() {
    skip_space();
    return at_ == text_.size();
  }
  bool take(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  // A string; `whole`: its end is there. What comes after a broken or unfinished escape is left out.
  std::string string(bool& whole) {
    whole = false;
    if (!take('"')) return "";
    const size_t begin = at_;
    size_t safe = at_;  // the end of the last whole character or escape
    while (at_ < text_.size()) {
      if (text_[at_] == '"') {
        whole = true;
        return unescaped(text_.substr(begin, at_++ - begin));
      }
      const size_t length = text_[at_] != '\\' ? 1 : at_ + 1 < text_.size() && text_[at_ + 1] == 'u' ? 6 : 2;
      at_ += length;
      if (at_ <= text_.size()) safe = at_;
    }
    at_ = text_.size();
    return unescaped(text_.substr(begin, safe - begin));
  }

  // Any value as it is written, or its beginning.
  std::string value(bool& whole) {
    skip_space();
    const size_t begin = at_;
    int depth = 0;
    whole = false;
    while (at_ < text_.size() && !whole) {
      const char c = text_[at_];
      if (c == '"') {
        bool closed = false;
        string(closed);
        whole = closed && depth == 0;
        continue;
      }
      if (depth == 0 && (c == ',' || c == '}' || c == ']')) {
        whole = true;  // a number or a word ended before
        break;
      }
      ++at_;
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') whole = --depth == 0;
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  static std::string unescaped(std::string_view inner) {
    try {
      return common_json::parse("\"" + std::string(inner) + "\"").get<std::string>();
    } catch (const std::exception&) {  // half of a surrogate pair
      const size_t cut = inner.rfind("\\u");
      return cut == std::string_view::npos ? "" : unescaped(inner.substr(0, cut));
    }
  }

  std::string_view text_;
  size_t at_ = 0;
};

// {"name": "f", "arguments": {...}} or its beginning. False: no name yet, or something else.
bool scan_call(Scanner& scanner, ToolCall& call, bool& whole) {
  whole = false;
  bool done = false;
  if (!scanner.take('{') || scanner.string(done) != "name" || !scanner.take(':')) return false;
  call.name = scanner.string(done);
  if (!done) return false;
  if (!scanner.take(',') || scanner.string(done) != "arguments" || !scanner.take(':')) return true;
  call.arguments = scanner.value(done);
  whole = done && scanner.take('}');
  return true;
}

}  // namespace

std::string generic_tool_instructions(const GenericTools& tools) {
  std::string text = "You can call these functions:\n";
  const common_json list = common_json::parse(tools.tools);
  for (const auto& [index, tool] : list.items()) text += function_of(tool).dump() + "\n";
  text += "To call, answer with JSON alone: {\"tool_calls\": [{\"name\": NAME, \"arguments\": {...}}]}.";
  if (!tools.required) text += " To answer without a call: {\"response\": TEXT}.";
  return text;
}

std::string generic_tool_schema(const GenericTools& tools) {
  common_json calls = common_json::array();
  const common_json all = common_json::parse(tools.tools);
  for (const auto& [index, tool] : all.items()) {
    const common_json function = function_of(tool);
    common_json properties = common_json::object();
    properties["name"]["const"] = function.at("name").get<std::string>();
    common_json parameters = common_json::parse(R"({"type": "object"})");
    if (function.contains("parameters") && !function.at("parameters").empty()) parameters = function.at("parameters");
    properties["arguments"] = parameters;
    calls.push_back(object_of(properties, R"(["name", "arguments"])"));
  }
  common_json list = common_json::parse(R"({"type": "array", "minItems": 1})");
  if (!tools.parallel) list["maxItems"] = 1;
  list["items"]["anyOf"] = calls;
  common_json properties = common_json::object();
  properties["tool_calls"] = list;
  const common_json called = object_of(properties, R"(["tool_calls"])");
  if (tools.required) return called.dump();
  common_json answered = common_json::object();
  answered["response"]["type"] = "string";
  common_json either = common_json::object();
  either["anyOf"] = common_json::array();
  either["anyOf"].push_back(called);
  either["anyOf"].push_back(object_of(answered, R"(["response"])"));
  return either.dump();
}

ChatAnswer parse_generic_answer(const std::string& text, bool partial) {
  ChatAnswer answer;
  Scanner scanner(text);
  bool whole = false;
  if (scanner.at_end() || !scanner.take('{')) return {partial && scanner.at_end() ? "" : text, "", {}};
  const std::string key = scanner.string(whole);
  if (!whole || !scanner.take(':')) return {partial ? "" : text, "", {}};
  if (key == "response") {
    answer.content = scanner.string(whole);
    return answer;
  }
  if (key != "tool_calls" || !scanner.take('[')) return {partial ? "" : text, "", {}};
  do {
    ToolCall call;
    if (!scan_call(scanner, call, whole)) break;
    answer.tool_calls.push_back(std::move(call));
  } while (whole && scanner.take(','));
  return answer;
}

}  // namespace serving
