// If these fail, one client's schema stops the gateway for all, or a wrong one is found only when the model answers.
#include "examples/llm_serving/engine/grammar.h"

#include <gtest/gtest.h>

#include "tests/examples/llm_serving/engine/engine_harness.h"

namespace serving {
namespace {

TEST(Grammar, ASchemaBecomesAGrammar) {
  const Result<std::string> grammar = schema_to_grammar(R"({"type":"object","properties":{"age":{"type":"integer"}}})");
  ASSERT_TRUE(grammar.ok()) << grammar.problem().what;
  EXPECT_NE(grammar->find("root ::="), std::string::npos);
  EXPECT_TRUE(check_grammar(*grammar, test_tokenizer()).ok());
  EXPECT_TRUE(schema_to_grammar("{}").ok());
}

TEST(Grammar, AWrongSchemaSaysWhatIsWrong) {
  const Result<std::string> grammar = schema_to_grammar(R"({"$ref":"#/nowhere"})");
  ASSERT_FALSE(grammar.ok());
  EXPECT_FALSE(grammar.problem().what.empty());
  EXPECT_FALSE(schema_to_grammar("{\"type\":").ok());
}

TEST(Grammar, AWrongGrammarSaysWhereItBreaks) {
  const Result<std::string> grammar = check_grammar("root ::= \"a\" | nothing", test_tokenizer());
  ASSERT_FALSE(grammar.ok());
  EXPECT_NE(grammar.problem().what.find("nothing"), std::string::npos) << grammar.problem().what;
  EXPECT_FALSE(check_grammar("other ::= \"a\"", test_tokenizer()).ok());
  EXPECT_FALSE(check_grammar("root ::= root \"a\"", test_tokenizer()).ok()) << "left recursion";
  EXPECT_FALSE(check_grammar("", test_tokenizer()).ok());
}

TEST(Grammar, WhatExplodesIsAnErrorWithinTheLimit) {
  // Each rule doubles the one before: 2^40 characters.
  std::string bomb = "root ::= r40\nr0 ::= \"x\"\n";
  for (int i = 1; i <= 40; ++i) {
    const std::string below = "r" + std::to_string(i - 1);
    bomb += "r" + std::to_string(i) + " ::= (" + below + " | " + below + ")?\n";
  }
  const auto begin = std::chrono::steady_clock::now();
  const Result<std::string> grammar = check_grammar(bomb, test_tokenizer());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  ASSERT_FALSE(grammar.ok());
  EXPECT_NE(grammar.problem().what.find("more than"), std::string::npos) << grammar.problem().what;
}

TEST(Grammar, WhatExplodesWhenItIsUsedIsAnErrorToo) {
  std::string deep = "[a-z]{1,4000}";
  for (int i = 0; i < 12; ++i) deep = "(" + deep + "){1,4000}";
  const Result<std::string> result = check_grammar("root ::= " + deep, test_tokenizer());
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.problem().what.find("more than"), std::string::npos) << result.problem().what;
}

TEST(Grammar, WhatExplodesAfterItsFirstTokenIsAnErrorToo) {
  std::string deep = "[a-z]{1,4000}";
  for (int i = 0; i < 12; ++i) deep = "(" + deep + "){1,4000}";
  for (const std::string before : {"\"{\" [0-9] ", "\"a long way to go before it comes: \" [0-9]{100} name \": \" "}) {
    const Result<std::string> result =
        check_grammar("root ::= " + before + "deep\nname ::= [a-z]+\ndeep ::= \"'\" " + deep + "\n", test_tokenizer());
    ASSERT_FALSE(result.ok()) << before;
    EXPECT_NE(result.problem().what.find("more than"), std::string::npos) << result.problem().what;
  }
}

TEST(Grammar, OneThatHasPassedIsNotLookedAtAgain) {
  GrammarChecks checks;
  const std::string good = "root ::= [a-z]{1,20} \", \" [0-9]+";
  ASSERT_TRUE(checks.check(good, test_tokenizer()).ok());
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(*checks.check(good, test_tokenizer()), good);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1)) << "a child each time";
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(checks.check("root ::= (", test_tokenizer()).ok());
}

TEST(Grammar, TheLimitsOfAChild) {
  const Result<std::string> slow = run_bounded({std::chrono::milliseconds(50), 64 << 20}, []() -> Result<std::string> {
    while (true) {
    }
  });
  ASSERT_FALSE(slow.ok());
  EXPECT_EQ(slow.problem().what, "it takes more than 50 ms");
  const Result<std::string> large = run_bounded({std::chrono::seconds(20), 64 << 20}, []() -> Result<std::string> {
    std::vector<std::string> held;
    while (true) held.emplace_back(1 << 20, 'x');
  });
  ASSERT_FALSE(large.ok());
  EXPECT_EQ(large.problem().what, "it takes more than 64 MiB of memory");
  const Result<std::string> thrown = run_bounded({}, []() -> Result<std::string> { throw std::runtime_error("why"); });
  ASSERT_FALSE(thrown.ok());
  EXPECT_EQ(thrown.problem().what, "why");
  EXPECT_EQ(*run_bounded({}, [] { return Result<std::string>(std::string(200'000, 'y')); }), std::string(200'000, 'y'));
}

}  // namespace
}  // namespace serving
