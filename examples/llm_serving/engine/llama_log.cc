#include "examples/llm_serving/engine/llama_log.h"

#include <llama.h>
#include <log.h>
#include <mutex>
#include <string_view>

namespace serving {
namespace {

thread_local LlamaErrors* current = nullptr;
constexpr size_t kMostText = 64 * 1024;

}  // namespace

void take_llama_line(int level, const char* text) {
  if (current != nullptr && (level == GGML_LOG_LEVEL_ERROR || level == GGML_LOG_LEVEL_WARN) &&
      current->text_.size() < kMostText)
    current->text_.append(text);
}

void capture_llama_log() {
  static std::once_flag once;
  std::call_once(once, [] {
    llama_log_set([](ggml_log_level level, const char* text, void*) { take_llama_line(level, text); }, nullptr);
    common_log_set_verbosity_thold(-1);  // `common` has a log of its own
  });
}

LlamaErrors::LlamaErrors() : outer_(current) { current = this; }
LlamaErrors::~LlamaErrors() { current = outer_; }

std::string LlamaErrors::cause() const {
  std::string_view rest = text_;
  std::string found;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    // "llama_model_load: error loading model: unknown model architecture: 'foo'"
    while (true) {
      const size_t colon = line.find(": ");
      if (colon == std::string_view::npos) break;
      const std::string_view head = line.substr(0, colon);
      if (head.find("llama_") != 0 && head.find("gguf_") != 0 && head.find("error loading") != 0) break;
      line.remove_prefix(colon + 2);
    }
    // The first line has the cause, later ones only repeat that something failed.
    if (found.empty() && !line.empty()) found = line;
  }
  return found;
}

}  // namespace serving
