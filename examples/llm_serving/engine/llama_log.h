// What libllama says, kept from the terminal: its errors belong into ours.
#pragma once

#include <string>

namespace serving {

// From now on nothing of libllama or ggml is printed. Once per process; any thread; further calls do nothing.
void capture_llama_log();

// The errors that the calling thread's calls into libllama report while this exists.
class LlamaErrors {
 public:
  LlamaErrors();
  ~LlamaErrors();
  LlamaErrors(const LlamaErrors&) = delete;
  LlamaErrors& operator=(const LlamaErrors&) = delete;

  // The last line that names a cause, without libllama's function names; empty: it gave none.
  std::string cause() const;
  const std::string& text() const { return text_; }

 private:
  friend void take_llama_line(int level, const char* text);
  std::string text_;
  LlamaErrors* outer_;
};

}  // namespace serving
