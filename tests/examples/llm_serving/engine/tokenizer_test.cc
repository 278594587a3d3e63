// If these fail, a prompt is not what its author wrote, or an answer is unreadable.
#include "examples/llm_serving/engine/tokenizer.h"

#include <chrono>
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

std::string repeated(const std::string& word, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += word;
  return text;
}

TEST(Tokenizer, ATextWithTooManyTokensIsNotReadToItsEnd) {
  const Tokenizer& tokenizer = test_tokenizer();
  for (const char* word : {"word ", "a", "\xF0\x9F\xA6\xA9", "        \n", "1234567890"}) {
    const std::string book = repeated(word, 15 << 20);
    const auto begin = std::chrono::steady_clock::now();
    const Tokenizer::Bounded bounded = tokenizer.encode_up_to(book, Special::kPlain, 2048);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2)) << word << ": all of it takes 20";
    EXPECT_GT(bounded.at_least, 2048) << word;
    EXPECT_TRUE(bounded.tokens.empty());
    // What it says is true, of a text that is long enough to be cut.
    const std::string chapter = repeated(word, 300'000);
    const auto all = static_cast<int64_t>(tokenizer.encode(chapter, Special::kPlain).size());
    EXPECT_LE(tokenizer.encode_up_to(chapter, Special::kPlain, 1024).at_least, all) << word;
  }
}

TEST(Tokenizer, ATextThatFitsIsReadWhole) {
  const Tokenizer& tokenizer = test_tokenizer();
  // Many bytes a token, and few; with as many tokens as there may be.
  for (const std::string& text : {std::string(), repeated("                                ", 300'000),
                                  repeated("word ", 8000), repeated("\xF0\x9F\xA6\xA9", 8000)}) {
    const std::vector<Token> tokens = tokenizer.encode(text, Special::kPlain);
    const Tokenizer::Bounded bounded =
        tokenizer.encode_up_to(text, Special::kPlain, static_cast<int64_t>(tokens.size()));
    EXPECT_EQ(bounded.tokens, tokens) << text.substr(0, 8);
    EXPECT_EQ(bounded.at_least, 0);
  }
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
