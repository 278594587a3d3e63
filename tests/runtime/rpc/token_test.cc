// If these fail, a pasted token does not let a machine in, or a worker's secret opens more than it should.
#include "runtime/rpc/token.h"

#include <gtest/gtest.h>

#include "runtime/base/text.h"

namespace rayo::rpc {
namespace {

Token some_token() {
  Fingerprint fingerprint{};
  fingerprint[0] = 0xab;
  fingerprint[31] = 0x07;
  return Token::make(fingerprint);
}

std::string error_of(std::string_view text) {
  auto token = Token::parse(text);
  EXPECT_FALSE(token.ok()) << text;
  if (token.ok()) return {};
  EXPECT_EQ(token.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(base::next_step(token.status()), "`rayo token` on the head's machine prints the right line");
  return std::string(base::message(token.status()));
}

TEST(Token, ReadsBackWhatItPrints) {
  Token token = some_token();
  std::string text = token.text();
  EXPECT_EQ(text.size(), 129u);
  EXPECT_TRUE(text.ends_with("07"));
  auto again = Token::parse(base::cat("  ", text, "\n"));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->secret, token.secret);
  EXPECT_EQ(again->fingerprint, token.fingerprint);
}

TEST(Token, EachIsFresh) { EXPECT_NE(some_token().secret, some_token().secret); }

TEST(Token, SaysWhatIsWrongAndNeverTheSecret) {
  std::string text = some_token().text();
  EXPECT_EQ(error_of(" \n"), "the join token is empty");
  EXPECT_EQ(error_of(text.substr(0, 64)), "the join token is malformed: it has no '.' between secret and fingerprint");
  EXPECT_EQ(error_of(text.substr(1)), "the join token is malformed: its secret has 63 characters, not 64");
  EXPECT_EQ(error_of(text + "0"), "the join token is malformed: its fingerprint has 65 characters, not 64");
  EXPECT_EQ(error_of(text + ".1"), "the join token is malformed: its fingerprint has 66 characters, not 64");
  std::string letter = text;
  letter[3] = 'x';
  EXPECT_EQ(error_of(letter), "the join token is malformed: its secret holds something other than hexadecimal digits");
}

TEST(Hkdf, GivesTheValuesOfRfc5869) {
  std::string key(22, '\x0b'), salt, info;
  for (int i = 0; i <= 0x0c; ++i) salt.push_back(static_cast<char>(i));
  for (int i = 0xf0; i <= 0xf9; ++i) info.push_back(static_cast<char>(i));
  const Secret first = {0x3c, 0xb2, 0x5f, 0x25, 0xfa, 0xac, 0xd5, 0x7a, 0x90, 0x43, 0x4f, 0x64, 0xd0, 0x36, 0x2f, 0x2a,
                        0x2d, 0x2d, 0x0a, 0x90, 0xcf, 0x1a, 0x5a, 0x4c, 0x5d, 0xb0, 0x2d, 0x56, 0xec, 0xc4, 0xc5, 0xbf};
  EXPECT_EQ(hkdf(key, salt, info), first);  // test case 1
  const Secret third = {0x8d, 0xa4, 0xe7, 0x75, 0xa5, 0x63, 0xc1, 0x8f, 0x71, 0x5f, 0x80, 0x2a, 0x06, 0x3c, 0x5a, 0x31,
                        0xb8, 0xa1, 0x1f, 0x5c, 0x5e, 0xe1, 0x87, 0x9e, 0xc3, 0x45, 0x4e, 0x5f, 0x3c, 0x73, 0x8d, 0x2d};
  EXPECT_EQ(hkdf(key, {}, {}), third);  // test case 3: neither salt nor info
}

TEST(LinkKeys, NoTwoPurposesShareAKey) {
  Token token = some_token();
  LinkKeys join = LinkKeys::of_join(token.secret), data = LinkKeys::of_data(token.data_secret());
  Nonce one = random_nonce(), two = random_nonce();
  std::vector<Secret> all = {token.secret,    token.data_secret(), join.header_key,   join.tls_secret,  data.header_key,
                             data.tls_secret, join.tls_key(one),   join.tls_key(two), data.tls_key(one)};
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = 0; j < i; ++j) EXPECT_NE(all[i], all[j]) << i << " and " << j;
  EXPECT_EQ(join.tls_key(one), LinkKeys::of_join(token.secret).tls_key(one));
}

TEST(Secret, TravelsAsBytes) {
  Secret secret = random_secret();
  auto again = secret_from_bytes(to_bytes(secret));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, secret);
  EXPECT_FALSE(secret_from_bytes(to_bytes(secret).substr(1)).ok());
}

}  // namespace
}  // namespace rayo::rpc
