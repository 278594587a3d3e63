// What a user loses if these fail: strangers, or a web page that the user visits, use the model.
#include "examples/llm_serving/gateway/access.h"

#include <gtest/gtest.h>

namespace serving::gateway {
namespace {

TEST(Access, LoopbackIsForThisMachinesOwn) {
  const Access access(true, {});
  for (const char* host : {"localhost", "localhost:8000", "127.0.0.1:1", "127.0.0.2:8000", "[::1]:8000",
                           "app.localhost:80", "LocalHost:8000"})
    EXPECT_FALSE(access.refuse_place({.host = host})) << host;
  for (const char* host : {"evil.example", "localhost.evil.example:8000", "127.0.0.1.evil.example", "128.0.0.1",
                           "127.0.0", "[::2]:8000", "[::1"})
    EXPECT_TRUE(access.refuse_place({.host = host})) << host;
  EXPECT_TRUE(access.refuse_place({.host = "localhost", .origin = "https://evil.example"}));
  EXPECT_TRUE(access.refuse_place({.host = "localhost", .origin = "null"}));
  EXPECT_FALSE(access.refuse_place({.host = "localhost", .origin = "http://localhost:3000"}));
  EXPECT_EQ(access.allowed_origin({.origin = "http://localhost:3000"}), "http://localhost:3000");
  EXPECT_EQ(access.allowed_origin({.origin = "https://evil.example"}), "");
}

TEST(Access, KeysDecideElsewhere) {
  const Access access(false, {"one", "two"});
  EXPECT_FALSE(access.refuse_place({.host = "any.example", .origin = "https://any.example"}));
  EXPECT_FALSE(access.refuse_key({.authorization = "Bearer two"}));
  EXPECT_FALSE(access.refuse_key({.authorization = "bearer  one "}));
  EXPECT_FALSE(access.refuse_key({.api_key = "one"}));
  EXPECT_EQ(access.refuse_key({})->status, 401);
  EXPECT_EQ(access.refuse_key({.authorization = "Bearer on"})->code, "invalid_api_key");
  EXPECT_TRUE(access.refuse_key({.authorization = "Basic one"}));
  EXPECT_TRUE(access.refuse_key({.authorization = "Bearer "}));
}

TEST(Access, KeyFilesHaveOneKeyALine) {
  EXPECT_EQ(parse_keys("one\r\n\n# a comment\n  two\nthree"), (std::vector<std::string>{"one", "two", "three"}));
  EXPECT_TRUE(parse_keys("").empty());
}

TEST(Access, SecretsAreComparedWhole) {
  EXPECT_TRUE(same_secret("abc", "abc"));
  EXPECT_FALSE(same_secret("abc", "abd"));
  EXPECT_FALSE(same_secret("abc", "abcabc"));
  EXPECT_FALSE(same_secret("abc", ""));
  EXPECT_FALSE(same_secret("aaa", "a"));
}

}  // namespace
}  // namespace serving::gateway
