#include "examples/llm_serving/engine/tokenizer.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <llama.h>

#include "examples/llm_serving/batching/stop_matcher.h"
#include "examples/llm_serving/engine/llama_log.h"

namespace serving {

namespace {

std::string metadata(const llama_model* model, const std::string& key) {
  char text[128] = {};
  return llama_model_meta_val_str(model, key.c_str(), text, sizeof text) > 0 ? text : "";
}

// A token's text is never shorter than its bytes. Of vocabularies that do not write down each byte of a text nothing is known.
size_t longest_of(const llama_vocab* vocab) {
  const auto type = llama_vocab_type(vocab);
  if (type != LLAMA_VOCAB_TYPE_BPE && type != LLAMA_VOCAB_TYPE_SPM) return SIZE_MAX;
  size_t longest = 1;
  for (Token token = 0; token < llama_vocab_n_tokens(vocab); ++token)
    longest = std::max(longest, std::strlen(llama_vocab_get_text(vocab, token)));
  return longest;
}

// The beginning of a text, up to a blank where there is one: behind it the tokens before it are no others.
std::string_view beginning_of(std::string_view text, size_t bytes) {
  const size_t blank = text.substr(0, bytes).find_last_of(" \n");
  if (blank != std::string_view::npos && blank > 0) return text.substr(0, blank);
  return text.substr(0, bytes - incomplete_tail(text.substr(0, bytes)));
}

// From the file's header: without the weights libllama leaves its own figure at 0.
int32_t trained_context_of(const llama_model* model) {
  return std::atoi(metadata(model, metadata(model, "general.architecture") + ".context_length").c_str());
}

}  // namespace

void Tokenizer::Free::operator()(llama_model* model) const { llama_model_free(model); }

Result<Tokenizer> Tokenizer::load(const std::string& model_path) {
  capture_llama_log();
  const LlamaErrors errors;
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  std::unique_ptr<llama_model, Free> model(llama_model_load_from_file(model_path.c_str(), params));
  if (!model)
    return Problem{"the vocabulary of " + model_path + " cannot be read: " + errors.cause(), "use another GGUF file"};
  Tokenizer tokenizer(model.get());
  tokenizer.owned_ = std::move(model);
  return tokenizer;
}

Tokenizer::Tokenizer(const llama_model* model)
    : model_(model),
      vocab_(llama_model_get_vocab(model)),
      size_(llama_vocab_n_tokens(vocab_)),
      trained_context_(trained_context_of(model)),
      longest_(longest_of(vocab_)) {
  for (Token token = 0; token < size_; ++token) {
    if (llama_vocab_is_eog(vocab_, token)) end_tokens_.push_back(token);
  }
}

std::vector<Token> Tokenizer::encode(std::string_view text, Special special, bool begin) const {
  std::vector<Token> tokens(text.size() + 2);
  const auto length = static_cast<int32_t>(text.size());
  const bool parsed = special == Special::kParsed;
  int32_t count =
      llama_tokenize(vocab_, text.data(), length, tokens.data(), static_cast<int32_t>(tokens.size()), begin, parsed);
  if (count < 0) {
    tokens.resize(-count);
    count =
        llama_tokenize(vocab_, text.data(), length, tokens.data(), static_cast<int32_t>(tokens.size()), begin, parsed);
  }
  tokens.resize(std::max(count, 0));
  // A template that writes the beginning itself, and a tokenizer that adds it.
  if (begin && parsed && llama_vocab_get_add_bos(vocab_) && tokens.size() >= 2 &&
      tokens[0] == llama_vocab_bos(vocab_) && tokens[1] == tokens[0])
    tokens.erase(tokens.begin());
  return tokens;
}

// A token has three to five bytes in most texts. So a beginning of eight for each that there may be has too many already, and
// costs a fraction of all of a text that may be as long as a request.
Tokenizer::Bounded Tokenizer::encode_up_to(std::string_view text, Special special, int64_t most) const {
  constexpr size_t kBytes = 8;
  constexpr size_t kCounted = 256 << 10;  // read whole in any case, in a third of a second: its number is told exactly
  const size_t enough = kBytes * static_cast<size_t>(std::max<int64_t>(1, most));
  if (text.size() > std::max(enough, kCounted)) {
    const auto surely = static_cast<int64_t>(text.size() / longest_);
    if (surely > most) return {.at_least = surely};
    const auto some = static_cast<int64_t>(encode(beginning_of(text, enough), special).size());
    if (some > most + most / 8) return {.at_least = some};  // a word that was cut changes a few at its end
  }
  return {.tokens = encode(text, special)};
}

std::string Tokenizer::piece(Token token, bool shown) const {
  std::string text(32, '\0');
  int32_t count = llama_token_to_piece(vocab_, token, text.data(), static_cast<int32_t>(text.size()), 0, shown);
  if (count < 0) {
    text.resize(-count);
    count = llama_token_to_piece(vocab_, token, text.data(), static_cast<int32_t>(text.size()), 0, shown);
  }
  text.resize(std::max(count, 0));
  return text;
}

std::string Tokenizer::decode(const std::vector<Token>& tokens, bool shown) const {
  std::string bytes;
  for (Token token : tokens) bytes += piece(token, shown);
  return repaired(bytes);
}

bool Tokenizer::ends_answer(Token token) const { return llama_vocab_is_eog(vocab_, token); }

Token Tokenizer::single(std::string_view text) const {
  const std::vector<Token> tokens = encode(text, Special::kParsed, false);
  return tokens.size() == 1 ? tokens[0] : -1;
}

}  // namespace serving
