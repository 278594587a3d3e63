#include "examples/llm_serving/gateway/parse_messages.h"

#include <algorithm>
#include <cctype>

namespace serving::gateway {
namespace {

namespace json = boost::json;

constexpr size_t kMostTools = 128;       // as OpenAI's
constexpr size_t kLongestToolName = 64;  // bytes, as OpenAI's
constexpr size_t kMostMessages = 100'000;

std::string element(const std::string& path, size_t index) { return path + "[" + std::to_string(index) + "]"; }

void check_part(const json::value& part, const std::string& path) {
  if (!part.is_object()) throw invalid_type(path, "an object", part);
  const Fields fields(part.get_object(), path);
  const std::optional<std::string> type = fields.text("type");
  if (!type) throw missing(fields.path("type"));
  if (*type == "image_url" || *type == "input_image")
    throw bad_request("Invalid content type: this model does not take images.", fields.path("type"),
                      "unsupported_content");
  if (*type == "input_audio")
    throw bad_request("Invalid content type: this model does not take audio.", fields.path("type"),
                      "unsupported_content");
  if (*type == "file")
    throw bad_request("Invalid content type: this model does not take files.", fields.path("type"),
                      "unsupported_content");
  if (*type != "text" && *type != "refusal") throw invalid_value(fields.path("type"), *type, "'text'");
  if (!fields.text(*type)) throw missing(fields.path(*type));
}

void check_tool_calls(const json::array& calls, const std::string& path) {
  for (size_t i = 0; i < calls.size(); ++i) {
    if (!calls[i].is_object()) throw invalid_type(element(path, i), "an object", calls[i]);
    const Fields call(calls[i].get_object(), element(path, i));
    const json::object* function = call.object("function");
    if (function == nullptr) throw missing(call.path("function"));
    const Fields inner(*function, call.path("function"));
    if (!inner.text("name")) throw missing(inner.path("name"));
    if (!inner.text("arguments")) throw missing(inner.path("arguments"));
  }
}

void check_content(const Fields& message, const std::string& role, bool calls_tools) {
  const json::value* content = message.find("content");
  const std::string path = message.path("content");
  if (content == nullptr) {
    if (role == "assistant" && calls_tools) return;
    throw bad_request("Invalid value for '" + path + "': expected a string, got null.", path, "invalid_type");
  }
  if (content->is_string()) return;
  if (!content->is_array()) throw invalid_type(path, "a string or an array of parts", *content);
  const json::array& parts = content->get_array();
  if (parts.empty()) throw empty_array(path);
  for (size_t i = 0; i < parts.size(); ++i) check_part(parts[i], element(path, i));
}

json::object parse_message(const json::value& value, const std::string& path) {
  if (!value.is_object()) throw invalid_type(path, "an object", value);
  const Fields message(value.get_object(), path);
  const std::optional<std::string> role = message.text("role");
  if (!role) throw missing(message.path("role"));
  if (*role != "system" && *role != "developer" && *role != "user" && *role != "assistant" && *role != "tool" &&
      *role != "function")
    throw invalid_value(message.path("role"), *role,
                        "'system', 'assistant', 'user', 'function', 'tool', and 'developer'");
  const json::array* calls = message.array("tool_calls");
  if (calls != nullptr) check_tool_calls(*calls, message.path("tool_calls"));
  check_content(message, *role, calls != nullptr && !calls->empty());
  if (*role == "tool" && !message.text("tool_call_id")) throw missing(message.path("tool_call_id"));
  message.text("name");
  json::object checked;  // without what is null: templates test for presence
  for (const auto& [key, item] : value.get_object()) {
    if (!item.is_null() || key == "content") checked[key] = item;
  }
  if (*role == "developer") checked["role"] = "system";
  return checked;
}

}  // namespace

json::array parse_messages(const Fields& fields) {
  fields.required("messages");
  const json::array& messages = *fields.array("messages");
  if (messages.empty()) throw empty_array("messages");
  if (messages.size() > kMostMessages) throw array_too_long("messages", kMostMessages, messages.size());
  json::array checked;
  for (size_t i = 0; i < messages.size(); ++i) checked.push_back(parse_message(messages[i], element("messages", i)));
  return checked;
}

json::array parse_tools(const Fields& fields) {
  const json::array* tools = fields.array("tools");
  if (tools == nullptr) return {};
  if (tools->size() > kMostTools) throw array_too_long("tools", kMostTools, tools->size());
  for (size_t i = 0; i < tools->size(); ++i) {
    const std::string path = element("tools", i);
    if (!(*tools)[i].is_object()) throw invalid_type(path, "an object", (*tools)[i]);
    const Fields tool((*tools)[i].get_object(), path);
    const std::string type = tool.text("type").value_or("");
    if (type.empty()) throw missing(tool.path("type"));
    if (type != "function") throw invalid_value(tool.path("type"), type, "'function'");
    const json::object* function = tool.object("function");
    if (function == nullptr) throw missing(tool.path("function"));
    const Fields inner(*function, tool.path("function"));
    const std::optional<std::string> name = inner.text("name");
    if (!name) throw missing(inner.path("name"));
    const bool fits = !name->empty() && name->size() <= kLongestToolName &&
                      std::all_of(name->begin(), name->end(),
                                  [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; });
    if (!fits)
      throw bad_request("Invalid '" + inner.path("name") +
                            "': string does not match pattern. Expected a string that "
                            "matches the pattern '^[a-zA-Z0-9_-]{1,64}$'.",
                        inner.path("name"), "invalid_value");
    inner.text("description");
    inner.object("parameters");
  }
  return *tools;
}

ToolChoice parse_tool_choice(const Fields& fields, const json::array& tools) {
  const json::value* value = fields.find("tool_choice");
  if (value == nullptr) return {};
  ToolChoice choice;
  if (value->is_string()) {
    const std::string_view word = value->get_string();
    if (word == "none")
      choice.kind = ToolChoice::Kind::kNone;
    else if (word == "required")
      choice.kind = ToolChoice::Kind::kRequired;
    else if (word != "auto")
      throw invalid_value("tool_choice", word, "'none', 'auto', and 'required'");
  } else if (value->is_object()) {
    const Fields named(value->get_object(), "tool_choice");
    const json::object* function = named.object("function");
    if (function == nullptr) throw missing("tool_choice.function");
    choice.kind = ToolChoice::Kind::kNamed;
    choice.name = Fields(*function, "tool_choice.function").text("name").value_or("");
    if (choice.name.empty()) throw missing("tool_choice.function.name");
    const bool known = std::any_of(tools.begin(), tools.end(), [&choice](const json::value& tool) {
      return tool.at("function").at("name").get_string() == choice.name;
    });
    if (!known)
      throw bad_request("Tool choice '" + choice.name + "' not found in 'tools' parameter.", "tool_choice",
                        "invalid_value");
  } else {
    throw invalid_type("tool_choice", "a string or an object", *value);
  }
  if (tools.empty() && choice.kind != ToolChoice::Kind::kNone && choice.kind != ToolChoice::Kind::kAuto)
    throw bad_request("'tool_choice' is only allowed when 'tools' are specified.", "tool_choice", "invalid_value");
  return choice;
}

}  // namespace serving::gateway
