#include "examples/llm_serving/engine/grammar.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <json-schema-to-grammar.h>
#include <llama.h>
#include <random>
#include <sstream>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "examples/llm_serving/engine/llama_log.h"

namespace serving {
namespace {

using Clock = std::chrono::steady_clock;

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

// Each `every`th of the vocabulary, and all that are no longer than `short_bytes`.
std::vector<Token> some_tokens(Token every, int32_t short_bytes, const llama_vocab* vocab) {
  std::vector<Token> tokens;
  char text[64];
  for (Token token = 0; token < llama_vocab_n_tokens(vocab); ++token) {
    if (llama_vocab_is_eog(vocab, token)) continue;
    const int32_t bytes = llama_token_to_piece(vocab, token, text, sizeof text, 0, false);
    if (token % every == 0 || (bytes > 0 && bytes <= short_bytes)) tokens.push_back(token);
  }
  return tokens;
}

// Writes the beginning of a text of the grammar, which is the same each time.
void write_some(llama_sampler* grammar, const std::vector<Token>& tokens, int steps, Clock::time_point until) {
  std::minstd_rand random(static_cast<uint32_t>(tokens.size()));
  for (int step = 0; step < steps && Clock::now() < until; ++step) {
    std::vector<llama_token_data> all;
    for (const Token token : tokens) all.push_back({token, 0, 0});
    llama_token_data_array array{all.data(), all.size(), -1, false};
    llama_sampler_apply(grammar, &array);
    std::erase_if(all, [](const llama_token_data& token) { return !std::isfinite(token.logit); });
    if (all.empty()) return;  // its end
    llama_sampler_accept(grammar, all[random() % all.size()].id);
  }
}

// Those that repeat most come first.
std::vector<std::string> rules_of(const std::string& gbnf) {
  std::vector<std::pair<std::ptrdiff_t, std::string>> rules;
  std::istringstream lines(gbnf);
  for (std::string line; std::getline(lines, line);) {
    const size_t end = line.find_first_of(" \t:");
    if (end != std::string::npos && line.find("::=", end) == line.find_first_not_of(" \t", end))
      rules.emplace_back(0, line.substr(0, end));
    if (!rules.empty()) rules.back().first -= std::count(line.begin(), line.end(), '{');
  }
  std::stable_sort(rules.begin(), rules.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (auto& [repetitions, name] : rules) names.push_back(std::move(name));
  return names;
}

// Some grammars explode only when they are used, and not at their first token: an engine would stop there. So some text is
// written from the root on, and a little from each of the rules on.
void use(llama_sampler* grammar, const std::string& gbnf, const llama_vocab* vocab) {
  constexpr int kTokens = 24, kRuleTokens = 3;
  constexpr std::chrono::milliseconds kText{200}, kRules{400};  // an honest one needs some milliseconds a token
  write_some(grammar, some_tokens(1, 0, vocab), kTokens, Clock::now() + kText);
  const auto until = Clock::now() + kRules;
  const std::vector<Token> some = some_tokens(8, 2, vocab);
  for (const std::string& rule : rules_of(gbnf)) {
    if (Clock::now() > until) return;
    llama_sampler* part = llama_sampler_init_grammar(vocab, gbnf.c_str(), rule.c_str());
    if (part == nullptr) continue;
    write_some(part, some, kRuleTokens, until);
    llama_sampler_free(part);
  }
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
  if (vocab != nullptr) use(grammar, gbnf, vocab);
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

Result<std::string> GrammarChecks::check(const std::string& gbnf, const Tokenizer& tokenizer) {
  {
    const std::scoped_lock lock(mutex_);
    if (passed_.contains(gbnf)) return gbnf;
  }
  Result<std::string> checked = check_grammar(gbnf, tokenizer);
  if (!checked || gbnf.size() > kLargest) return checked;
  const std::scoped_lock lock(mutex_);
  if (passed_.size() >= kMost) passed_.erase(passed_.begin());
  passed_.insert(gbnf);
  return checked;
}

}  // namespace serving
