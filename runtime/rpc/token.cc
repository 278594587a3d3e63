#include "runtime/rpc/token.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "runtime/base/check.h"
#include "runtime/base/text.h"

namespace rayo::rpc {
namespace {

template <size_t N>
std::string hex(const std::array<uint8_t, N>& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * N);
  for (uint8_t byte : bytes) {
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The text itself is never put into an error: half of it is a secret.
base::Status read_hex(std::string_view text, std::string_view part, std::array<uint8_t, 32>& out) {
  if (text.size() != 2 * out.size())
    return base::failed(
        absl::StatusCode::kInvalidArgument,
        base::cat("the join token is malformed: its ", part, " has ", text.size(), " characters, not 64"), kTokenStep);
  for (size_t i = 0; i < out.size(); ++i) {
    int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0)
      return base::failed(
          absl::StatusCode::kInvalidArgument,
          base::cat("the join token is malformed: its ", part, " holds something other than hexadecimal digits"),
          kTokenStep);
    out[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return {};
}

template <class Bytes>
std::string_view view(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Secret hmac(std::string_view key, std::string_view text) {
  Secret out{};
  unsigned size = 0;
  const auto* done = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                          reinterpret_cast<const uint8_t*>(text.data()), text.size(), out.data(), &size);
  RAYO_CHECK(done != nullptr && size == out.size(), "SHA-256 is built into the OpenSSL we link");
  return out;
}

template <size_t N>
std::array<uint8_t, N> random_bytes() {
  std::array<uint8_t, N> bytes{};
  RAYO_CHECK(RAND_bytes(bytes.data(), static_cast<int>(N)) == 1, "the kernel's random source always answers");
  return bytes;
}

}  // namespace

Secret hkdf(std::string_view key, std::string_view salt, std::string_view info) {
  constexpr char kNoSalt[32] = {};
  Secret extracted = hmac(salt.empty() ? std::string_view(kNoSalt, sizeof kNoSalt) : salt, key);
  return hmac(view(extracted), base::cat(info, '\x01'));
}

Secret random_secret() { return random_bytes<32>(); }
Nonce random_nonce() { return random_bytes<16>(); }

Token Token::make(const Fingerprint& fingerprint) { return {random_secret(), fingerprint}; }

base::StatusOr<Token> Token::parse(std::string_view text) {
  text = base::trim(text);
  if (text.empty()) return base::failed(absl::StatusCode::kInvalidArgument, "the join token is empty", kTokenStep);
  size_t dot = text.find('.');
  if (dot == std::string_view::npos)
    return base::failed(absl::StatusCode::kInvalidArgument,
                        "the join token is malformed: it has no '.' between secret and fingerprint", kTokenStep);
  Token token;
  RAYO_RETURN_IF_ERROR(read_hex(text.substr(0, dot), "secret", token.secret));
  RAYO_RETURN_IF_ERROR(read_hex(text.substr(dot + 1), "fingerprint", token.fingerprint));
  return token;
}

std::string Token::text() const { return base::cat(hex(secret), '.', hex(fingerprint)); }

Secret Token::data_secret() const { return hkdf(view(secret), {}, "rayo data secret 1"); }

LinkKeys LinkKeys::of_join(const Secret& token_secret) {
  return {hkdf(view(token_secret), {}, "rayo join header 1"), hkdf(view(token_secret), {}, "rayo join tls 1")};
}

LinkKeys LinkKeys::of_data(const Secret& data_secret) {
  return {hkdf(view(data_secret), {}, "rayo data header 1"), hkdf(view(data_secret), {}, "rayo data tls 1")};
}

Secret LinkKeys::tls_key(const Nonce& nonce) const { return hkdf(view(tls_secret), view(nonce), "rayo tls psk 1"); }

base::StatusOr<Secret> secret_from_bytes(std::string_view bytes) {
  Secret secret;
  if (bytes.size() != secret.size())
    return base::failed(absl::StatusCode::kInvalidArgument,
                        base::cat("a secret of ", bytes.size(), " bytes was received instead of 32"));
  std::copy(bytes.begin(), bytes.end(), secret.begin());
  return secret;
}

bool is_secret(std::string_view text, const Secret& secret) {
  Secret given{};
  return read_hex(text.substr(0, text.find('.')), "SECRET", given).ok() &&
         CRYPTO_memcmp(given.data(), secret.data(), secret.size()) == 0;
}

std::string to_bytes(const Secret& secret) { return std::string(view(secret)); }

}  // namespace rayo::rpc
