#include "examples/llm_serving/engine/chat_template.h"

#include <chat.h>
#include <exception>
#include <json-schema-to-grammar.h>

#include "examples/llm_serving/engine/generic_tools.h"
#include "examples/llm_serving/engine/grammar.h"
#include "examples/llm_serving/engine/llama_log.h"

namespace serving {
namespace {

common_chat_tool_choice choice_of(const ChatRequest& request) {
  if (!request.named_tool.empty() || request.tool_choice == "required") return COMMON_CHAT_TOOL_CHOICE_REQUIRED;
  return request.tool_choice == "none" ? COMMON_CHAT_TOOL_CHOICE_NONE : COMMON_CHAT_TOOL_CHOICE_AUTO;
}

common_chat_templates_inputs inputs_of(const ChatRequest& request) {
  common_chat_templates_inputs inputs;
  inputs.messages = common_chat_msgs_parse_oaicompat(common_json::parse(request.messages));
  if (!request.tools.empty()) inputs.tools = common_chat_tools_parse_oaicompat(common_json::parse(request.tools));
  if (!request.named_tool.empty()) {
    std::erase_if(inputs.tools, [&](const common_chat_tool& tool) { return tool.name != request.named_tool; });
    if (inputs.tools.empty())
      throw std::invalid_argument("tool_choice names no tool of this request: " + request.named_tool);
  }
  inputs.tool_choice = inputs.tools.empty() ? COMMON_CHAT_TOOL_CHOICE_NONE : choice_of(request);
  inputs.parallel_tool_calls = request.parallel_tool_calls && request.named_tool.empty();
  inputs.json_schema = request.json_schema;
  inputs.reasoning_format = COMMON_REASONING_FORMAT_AUTO;
  if (request.continue_final_message) {
    inputs.continue_final_message = COMMON_CHAT_CONTINUATION_AUTO;
    inputs.add_generation_prompt = false;
  }
  if (!request.template_arguments.empty()) {
    const common_json arguments = common_json::parse(request.template_arguments);
    for (const auto& item : arguments.items()) inputs.chat_template_kwargs[item.key()] = item.value().dump();
  }
  const auto thinking = inputs.chat_template_kwargs.find("enable_thinking");
  if (thinking != inputs.chat_template_kwargs.end()) inputs.enable_thinking = thinking->second != "false";
  return inputs;
}

// The template makes grammars of the schemas here, without limits: so each is made in a child first.
Result<std::string> check_schemas(const common_chat_templates_inputs& inputs) {
  std::vector<std::string> schemas;
  if (!inputs.json_schema.empty()) schemas.push_back(inputs.json_schema);
  if (inputs.tool_choice != COMMON_CHAT_TOOL_CHOICE_NONE) {
    for (const common_chat_tool& tool : inputs.tools) {
      if (!tool.parameters.empty()) schemas.push_back(tool.parameters);
    }
  }
  if (schemas.empty()) return std::string();
  return run_bounded({}, [&]() -> Result<std::string> {
    for (const std::string& schema : schemas) json_schema_to_grammar(common_json::parse(schema));
    return std::string();
  });
}

// In the system message, which is made where there is none.
void tell_of_tools(const std::string& instructions, common_chat_templates_inputs& inputs) {
  inputs.tools.clear();
  inputs.tool_choice = COMMON_CHAT_TOOL_CHOICE_NONE;
  if (inputs.messages.empty() || inputs.messages[0].role != "system") {
    common_chat_msg message;
    message.role = "system";
    inputs.messages.insert(inputs.messages.begin(), message);
  }
  common_chat_msg& system = inputs.messages[0];
  system.content = system.render_content() + (system.render_content().empty() ? "" : "\n\n") + instructions;
  system.content_parts.clear();
}

std::string escaped(const std::string& word) {
  std::string pattern;
  for (char c : word) {
    if (std::string_view(".^$|()*+?[]{}\\").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

void add_trigger(const common_grammar_trigger& trigger, const Tokenizer& tokenizer, ChatPrompt& prompt) {
  switch (trigger.type) {
    case COMMON_GRAMMAR_TRIGGER_TYPE_TOKEN:
      prompt.grammar_trigger_tokens.push_back(trigger.token);
      return;
    case COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN:
      prompt.grammar_triggers.push_back(trigger.value);
      return;
    case COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN_FULL:
      prompt.grammar_triggers.push_back("^" + trigger.value + "$");
      return;
    case COMMON_GRAMMAR_TRIGGER_TYPE_WORD:
      break;
  }
  // A mark that is one token needs no search in the text.
  if (const Token token = tokenizer.single(trigger.value); token >= 0) {
    prompt.grammar_trigger_tokens.push_back(token);
  } else {
    prompt.grammar_triggers.push_back(escaped(trigger.value));
  }
}

}  // namespace

void ChatTemplate::Free::operator()(common_chat_templates* templates) const { common_chat_templates_free(templates); }

Result<ChatTemplate> ChatTemplate::load(const Tokenizer& tokenizer) {
  capture_llama_log();
  ChatTemplate chat(tokenizer);
  try {
    chat.templates_.reset(common_chat_templates_init(tokenizer.model(), "").release());
  } catch (const std::exception& error) {
    return Problem{std::string("the model's chat template cannot be read: ") + error.what(),
                   "use a newer GGUF file of this model"};
  }
  return chat;
}

Result<ChatPrompt> ChatTemplate::apply(const ChatRequest& request) const {
  try {
    common_chat_templates_inputs inputs = inputs_of(request);
    if (Result<std::string> checked = check_schemas(inputs); !checked) return checked.problem();
    const bool tools = inputs.tool_choice != COMMON_CHAT_TOOL_CHOICE_NONE;
    if (!tools || common_chat_templates_get_caps(templates_.get())["supports_tool_calls"])
      return apply_inputs(request, std::move(inputs));
    const GenericTools generic{common_chat_tools_to_json_oaicompat(inputs.tools).dump(),
                               inputs.tool_choice == COMMON_CHAT_TOOL_CHOICE_REQUIRED, inputs.parallel_tool_calls};
    Result<std::string> grammar = schema_to_grammar(generic_tool_schema(generic));
    if (!grammar) return grammar.problem();
    tell_of_tools(generic_tool_instructions(generic), inputs);
    Result<ChatPrompt> prompt = apply_inputs(request, std::move(inputs));
    if (!prompt) return prompt;
    prompt->grammar = std::move(*grammar);
    prompt->generic_tools = true;
    return prompt;
  } catch (const std::exception& error) {
    return Problem{error.what(), ""};
  }
}

Result<ChatPrompt> ChatTemplate::apply_inputs(const ChatRequest& request, common_chat_templates_inputs inputs) const {
  const common_chat_params made = common_chat_templates_apply(templates_.get(), inputs);
  // A model that does not think first answers a schema with JSON alone: the template's grammar would let it fence the
  // JSON.
  if (!inputs.json_schema.empty() && inputs.tools.empty() && !made.supports_thinking) {
    Result<std::string> grammar = schema_to_grammar(inputs.json_schema);
    if (!grammar) return grammar.problem();
    inputs.json_schema.clear();
    Result<ChatPrompt> prompt = apply_inputs(request, std::move(inputs));
    if (prompt) prompt->grammar = std::move(*grammar);
    return prompt;
  }
  ChatPrompt prompt;
  prompt.text = made.prompt;
  prompt.grammar = made.grammar;
  prompt.stop = made.additional_stops;
  if (!made.grammar.empty() && !made.grammar_lazy && !made.generation_prompt.empty())
    prompt.grammar_prefix = tokenizer_->encode(made.generation_prompt, Special::kParsed, false);
  if (made.grammar_lazy) {
    for (const common_grammar_trigger& trigger : made.grammar_triggers) add_trigger(trigger, *tokenizer_, prompt);
  }
  for (const std::string& mark : made.preserved_tokens) {
    if (const Token token = tokenizer_->single(mark); token >= 0) prompt.shown.push_back(token);
  }
  auto parser = std::make_shared<common_chat_parser_params>(made);
  parser->reasoning_format = COMMON_REASONING_FORMAT_AUTO;
  parser->parse_tool_calls = !inputs.tools.empty() && inputs.tool_choice != COMMON_CHAT_TOOL_CHOICE_NONE;
  parser->is_continuation = request.continue_final_message;
  if (!made.parser.empty()) parser->parser.load(made.parser);
  prompt.parser = std::move(parser);
  return prompt;
}

Result<ChatAnswer> ChatTemplate::parse(const ChatPrompt& prompt, const std::string& text, bool partial) {
  if (prompt.generic_tools) return parse_generic_answer(text, partial);
  try {
    const common_chat_msg message = common_chat_parse(text, partial, *prompt.parser);
    ChatAnswer answer{message.content, message.reasoning_content, {}};
    for (const common_chat_tool_call& call : message.tool_calls)
      answer.tool_calls.push_back({call.id, call.name, call.arguments});
    return answer;
  } catch (const std::exception& error) {
    return Problem{error.what(), ""};
  }
}

}  // namespace serving
