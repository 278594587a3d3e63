// Messages and tools of a chat; see requests.h.
#pragma once

#include "examples/llm_serving/gateway/fields.h"
#include "examples/llm_serving/gateway/requests.h"

namespace serving::gateway {

// "messages", checked: roles, contents and tool calls. Images, audio and files are refused.
boost::json::array parse_messages(const Fields& fields);

// "tools", checked: functions with a name.
boost::json::array parse_tools(const Fields& fields);
ToolChoice parse_tool_choice(const Fields& fields, const boost::json::array& tools);

}  // namespace serving::gateway
