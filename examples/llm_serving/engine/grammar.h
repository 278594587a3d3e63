// Grammars that strangers send: JSON schemas and GBNF, checked and compiled within limits (1 s, 64 MiB).
#pragma once

#include <string>

#include "examples/llm_serving/engine/bounded_child.h"
#include "examples/llm_serving/engine/result.h"
#include "examples/llm_serving/engine/tokenizer.h"

namespace serving {

// The grammar of all JSON texts that a schema allows; "{}" allows every object. Problem::what: the schema's error, or
// the limit that it met.
Result<std::string> schema_to_grammar(const std::string& json_schema, const ChildLimits& limits = {});

// The same grammar, if the rules can be read, have a root, and are no left recursion.
// Its rules may name tokens of the vocabulary.
Result<std::string> check_grammar(const std::string& gbnf, const Tokenizer& tokenizer, const ChildLimits& limits = {});

}  // namespace serving
