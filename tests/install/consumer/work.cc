#include "work.h"

int triple(int n) { return 3 * n; }

namespace {
std::vector<Word> repeat(const std::string& text, int times) {
  return std::vector<Word>(static_cast<size_t>(times), {text, times});
}
}  // namespace

rayo::ObjectRef<std::vector<Word>> repeat_remotely(const std::string& text, int times) {
  return rayo::remote<repeat>(text, times);
}
