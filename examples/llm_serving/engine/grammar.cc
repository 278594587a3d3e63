#include "examples/llm_serving/engine/grammar.h"

#include <algorithm>
#include <json-schema-to-grammar.h>
#include <llama.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "examples/llm_serving/engine/llama_log.h"

namespace serving {
namespace {

// What libllama's grammar parser prints of its own: in the child, whose standard error is nobody's.
class CapturedErrors {
 public:
  CapturedErrors() : handle_(memfd_create("errors", MFD_CLOEXEC)) { dup2(handle_, STDERR_FILENO); }
  CapturedErrors(const CapturedErrors&) = delete;
  CapturedErrors& operator=(const CapturedErrors&) = delete;

  // "error parsing grammar: expecting name at ..." of its first line; empty: nothing was printed.
  std::string cause() const {
    std::string text(1024, '\0');
    text.resize(static_cast<size_t>(std::max<ssize_t>(0, pread(handle_, text.data(), text.size(), 0))));
    text.resize(std::min(text.find('\n'), text.size()));
    const size_t begin = text.find("error parsing grammar: ");
    return begin == std::string::npos ? text : text.substr(begin + sizeof("error parsing grammar: ") - 1);
  }

 private:
  int handle_;
};

// What a first token costs: grammars are small and explode only when they are applied.
void use_once(llama_sampler* grammar, int32_t tokens) {
  std::vector<llama_token_data> all;
  for (int32_t token = 0; token < tokens; ++token) all.push_back({token, 0, 0});
  llama_token_data_array array{all.data(), all.size(), -1, false};
  llama_sampler_apply(grammar, &array);
}

// In the child: it may throw, or take any time.
Result<std::string> compile(const std::string& gbnf, const llama_vocab* vocab) {
  const LlamaErrors errors;
  const CapturedErrors printed;
  llama_sampler* grammar = llama_sampler_init_grammar(vocab, gbnf.c_str(), "root");
  if (grammar == nullptr) {
    const std::string cause = printed.cause().empty() ? errors.cause() : printed.cause();
    return Problem{cause.empty() ? "it is no GBNF grammar with a rule 'root'" : cause, ""};
  }
  if (vocab != nullptr) use_once(grammar, llama_vocab_n_tokens(vocab));
  llama_sampler_free(grammar);
  return gbnf;
}

}  // namespace

Result<std::string> schema_to_grammar(const std::string& json_schema, const ChildLimits& limits) {
  capture_llama_log();
  return run_bounded(limits, [&]() -> Result<std::string> {
    common_json schema = common_json::parse(json_schema);
    if (schema.is_object() && schema.empty()) schema["type"] = "object";
    return compile(json_schema_to_grammar(schema), nullptr);
  });
}

Result<std::string> check_grammar(const std::string& gbnf, const Tokenizer& tokenizer, const ChildLimits& limits) {
  capture_llama_log();
  if (gbnf.empty()) return Problem{"the grammar is empty", ""};
  return run_bounded(limits, [&] { return compile(gbnf, tokenizer.vocab()); });
}

}  // namespace serving
