// A model's vocabulary: texts to tokens and back. Loaded without the weights, in milliseconds, so that a gateway has
// it too.
//
//   Result<Tokenizer> tokenizer = Tokenizer::load("model.gguf");
//   std::vector<Token> tokens = tokenizer->encode("Hello", Special::kPlain);
//
// Read-only after load: any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "examples/llm_serving/engine/result.h"
#include "examples/llm_serving/protocol.h"

struct llama_model;
struct llama_vocab;

namespace serving {

enum class Special : uint8_t {
  kPlain,   // "<|im_end|>" in the text is eight characters that a user wrote
  kParsed,  // it is the model's mark: for text that a chat template made
};

class Tokenizer {
 public:
  // The model's own error where it cannot be read: see check_model_file() for the common causes.
  static Result<Tokenizer> load(const std::string& model_path);
  // Of a model that is loaded already and outlives this.
  explicit Tokenizer(const llama_model* model);

  // With `begin`, the token that begins a text comes first where the model wants one, and is not doubled.
  std::vector<Token> encode(std::string_view text, Special special, bool begin = true) const;
  // The same of a text with no more than `most` tokens. Of most that are much longer it reads only a beginning: then there are no tokens, and
  // `at_least` says how many it has.
  struct Bounded {
    std::vector<Token> tokens = {};
    int64_t at_least = 0;
  };
  Bounded encode_up_to(std::string_view text, Special special, int64_t most) const;
  // The bytes of one token: not always whole characters. Special tokens have none unless `shown`.
  std::string piece(Token token, bool shown = false) const;
  // As text: what is no UTF-8 is U+FFFD.
  std::string decode(const std::vector<Token>& tokens, bool shown = false) const;

  bool ends_answer(Token token) const;  // end of text, end of turn and their like
  const std::vector<Token>& end_tokens() const { return end_tokens_; }
  int32_t size() const { return size_; }
  bool holds(Token token) const { return token >= 0 && token < size_; }
  // The one token that `text` is; -1: it is none, or several.
  Token single(std::string_view text) const;
  int32_t trained_context() const { return trained_context_; }
  const llama_model* model() const { return model_; }
  const llama_vocab* vocab() const { return vocab_; }

 private:
  struct Free {
    void operator()(llama_model* model) const;
  };
  std::unique_ptr<llama_model, Free> owned_;
  const llama_model* model_ = nullptr;
  const llama_vocab* vocab_ = nullptr;
  int32_t size_ = 0;
  int32_t trained_context_ = 0;
  size_t longest_ = SIZE_MAX;  // bytes of a token at most
  std::vector<Token> end_tokens_;
};

}  // namespace serving
