// If this fails, our engine does not answer what llama-server answers with the same model: something of the model is
// computed wrongly, or a batch's neighbours change an answer.
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

#include "examples/llm_serving/engine/cpu_variant.h"
#include "tests/examples/llm_serving/engine/engine_harness.h"

namespace serving {
namespace {

struct Expected {
  std::string prompt;
  Answer answer;  // tokens and leads
};

std::string unescaped(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool newline = text[i] == '\\' && i + 1 < text.size() && text[i + 1] == 'n';
    out += newline ? '\n' : text[i];
    i += newline;
  }
  return out;
}

// Lines "prompt ...", "text ..." (for readers) and "tokens ID:LEAD ..." (make_llama_server_texts.py).
std::vector<Expected> llama_server_texts() {
  std::vector<Expected> all;
  std::ifstream file(RAYO_TEST_FOLDER "/llama_server_texts." + choose_cpu_variant().name);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("prompt ")) all.push_back({unescaped(line.substr(7)), {}});
    if (!line.starts_with("tokens ")) continue;
    std::istringstream pairs(line.substr(7));
    Token token = 0;
    double lead = 0;
    for (char colon; pairs >> token >> colon >> lead;) {
      all.back().answer.tokens.push_back(token);
      all.back().answer.leads.push_back(lead);
    }
  }
  return all;
}

// Ten at a time, each ten on an engine of its own: there the steps are the same to the bit as where each runs alone
// (docs/decisions/0004-what-a-text-depends-on.md).
TEST(LlamaServerTexts, AreOursToo) {
  constexpr size_t kTogether = 10;
  const std::vector<Expected> all = llama_server_texts();
  if (all.empty()) GTEST_SKIP() << "there are no texts of a llama-server built for " << choose_cpu_variant().name;
  ASSERT_EQ(all.size(), 50u);
  int near_ties = 0;
  for (size_t first = 0; first < all.size(); first += kTogether) {
    EngineOptions options;
    options.max_context = 256;
    options.kv_tokens = 1024;
    options.parallel = kTogether;
    EngineHarness engine(options);
    std::vector<uint64_t> ids;
    for (size_t i = first; i < first + kTogether; ++i) {
      const Request request = engine.request(all[i].prompt, static_cast<int32_t>(all[i].answer.tokens.size()));
      ids.push_back(request.id);
      ASSERT_EQ(engine.submit(request).verdict, Admission::Verdict::kTaken);
    }
    for (size_t i = 0; i < kTogether; ++i)
      near_ties += expect_same(engine.wait(ids[i]).tokens, all[first + i].answer, 0, all[first + i].prompt);
  }
  std::printf("%d of %zu part at a near tie\n", near_ties, all.size());
  EXPECT_LE(near_ties, 2) << "5 % of 50";
}

}  // namespace
}  // namespace serving
