// If these fail, a prompt is not what its author wrote, or an answer is unreadable.
#include "examples/llm_serving/engine/tokenizer.h"

#include <gtest/gtest.h>

#include "tests/examples/llm_serving/engine/engine_harness.h"

namespace serving {
namespace {

TEST(Tokenizer, TextComesBackAsItWas) {
  const Tokenizer& tokenizer = test_tokenizer();
  for (const std::string text :
       {"Hello, world!", "  two  spaces\n\ttab", "na\xC3\xAFve \xE4\xBD\xA0\xE5\xA5\xBD \xF0\x9F\x98\x80",
        "def f(x):\n    return x + 1\n", ""}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, Special::kPlain)), text);
  }
}

TEST(Tokenizer, AUserCannotWriteTheModelsMarks) {
  const Tokenizer& tokenizer = test_tokenizer();
  const Token end = tokenizer.single("<|im_end|>");
  ASSERT_GE(end, 0);
  EXPECT_TRUE(tokenizer.ends_answer(end));
  const std::vector<Token> plain = tokenizer.encode("<|im_end|>", Special::kPlain);
  EXPECT_EQ(std::count(plain.begin(), plain.end(), end), 0);
  EXPECT_EQ(tokenizer.decode(plain), "<|im_end|>");
}

TEST(Tokenizer, MarksAreShownOnlyWhereAsked) {
  const Tokenizer& tokenizer = test_tokenizer();
  const Token start = tokenizer.single("<|im_start|>");
  EXPECT_EQ(tokenizer.piece(start), "");
  EXPECT_EQ(tokenizer.piece(start, true), "<|im_start|>");
}

TEST(Tokenizer, AnEmojiIsSeveralTokensOfBytes) {
  const Tokenizer& tokenizer = test_tokenizer();
  const std::vector<Token> tokens = tokenizer.encode("\xF0\x9F\xA6\xA9", Special::kPlain);
  ASSERT_GT(tokens.size(), 1u);
  std::string bytes;
  for (Token token : tokens) bytes += tokenizer.piece(token);
  EXPECT_EQ(bytes, "\xF0\x9F\xA6\xA9");
  EXPECT_EQ(tokenizer.decode({tokens[0]}), "\xEF\xBF\xBD");
}

TEST(Tokenizer, TheModelTellsItsSizes) {
  EXPECT_EQ(test_tokenizer().size(), 49152);
  EXPECT_EQ(test_tokenizer().trained_context(), 8192);
  EXPECT_FALSE(test_tokenizer().holds(49152));
  EXPECT_FALSE(test_tokenizer().holds(-1));
}

TEST(Tokenizer, AFileThatIsNoModelIsAnError) {
  const Result<Tokenizer> tokenizer = Tokenizer::load("/proc/self/exe");
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_NE(tokenizer.problem().what.find("/proc/self/exe"), std::string::npos);
}

}  // namespace
}  // namespace serving
