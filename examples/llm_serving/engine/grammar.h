// Grammars that strangers send: JSON schemas and GBNF, checked and compiled within limits (1 s, 64 MiB).
#pragma once

#include <mutex>
#include <set>
#include <string>

#include "examples/llm_serving/engine/bounded_child.h"
#include "examples/llm_serving/engine/result.h"
#include "examples/llm_serving/engine/tokenizer.h"

namespace serving {

// The grammar of all JSON texts that a schema allows; "{}" allows every object. Problem::what: the schema's error, or
// the limit that it met.
Result<std::string> schema_to_grammar(const std::string& json_schema, const ChildLimits& limits = {});

// The same grammar, if the rules can be read, have a root, are no left recursion, and some text of it can be written within the
// limits. Its rules may name tokens of the vocabulary.
Result<std::string> check_grammar(const std::string& gbnf, const Tokenizer& tokenizer, const ChildLimits& limits = {});

// Remembers what has passed: a schema comes again with each request of its program, and a look at it costs tens of milliseconds.
// Any thread.
class GrammarChecks {
 public:
  Result<std::string> check(const std::string& gbnf, const Tokenizer& tokenizer);

 private:
  static constexpr size_t kMost = 256;
  static constexpr size_t kLargest = 64 << 10;  // bytes of one that is remembered
  std::mutex mutex_;
  std::set<std::string> passed_;
};

}  // namespace serving
