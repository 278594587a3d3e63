// The fields that chat and completions share; see requests.h.
#pragma once

#include "examples/llm_serving/gateway/fields.h"
#include "examples/llm_serving/gateway/requests.h"

namespace serving::gateway {

inline constexpr int32_t kMostAlternatives = 20;  // logprobs told with each token, as OpenAI's

Generation parse_generation(const Fields& fields, int64_t least_tokens = 1);

// A text, an array of texts, an array of token numbers, or an array of such arrays.
std::vector<Prompt> parse_prompts(const Fields& fields, std::string_view name);

// "tokens": an array of token numbers.
std::vector<Token> parse_tokens(const boost::json::array& array, const std::string& path);

}  // namespace serving::gateway
