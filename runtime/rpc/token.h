// The join token "SECRET.FINGERPRINT" and the keys that come from secrets.
//
//   SECRET       32 random bytes, 64 hexadecimal digits: lets a machine join
//   FINGERPRINT  SHA-256 of the cluster's CA certificate (DER), 64 digits: lets the joiner know the cluster
//
//   auto token = Token::parse(text);   // InvalidArgument says which part is wrong, never the secret itself
//   LinkKeys keys = LinkKeys::of_join(token->secret);
//
// Two secrets, two sets of keys: the token's secret opens a join only; the data secret (that every worker and
// driver holds) opens connections between processes only, and from it nobody gets back to the token. Values;
// any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace rayo::rpc {

using Secret = std::array<uint8_t, 32>;
using Nonce = std::array<uint8_t, 16>;
using Fingerprint = std::array<uint8_t, 32>;

// What to do about a token that is not the cluster's.
inline constexpr std::string_view kTokenStep = "`rayo token` on the head's machine prints the right line";

struct Token {
  Secret secret{};
  Fingerprint fingerprint{};

  // A fresh secret for the cluster of this fingerprint.
  static Token make(const Fingerprint& fingerprint);
  // Surrounding white space is ignored, capitals are taken.
  static base::StatusOr<Token> parse(std::string_view text);
  std::string text() const;
  // What workers, drivers and nodes hold; the head derives it once, keeps it (a rotated token leaves it as it
  // is) and tells it in Registered, Welcome and JoinResult.
  Secret data_secret() const;
};

// The keys of one secret.
struct LinkKeys {
  Secret header_key{};  // HMAC of the data header
  Secret tls_secret{};  // with the header's nonce: the key of TLS

  static LinkKeys of_join(const Secret& token_secret);
  static LinkKeys of_data(const Secret& data_secret);
  // The pre-shared key of the one connection that began with this nonce.
  Secret tls_key(const Nonce& nonce) const;
};

// 32 bytes as they travel in a Protobuf field; InvalidArgument for another length.
base::StatusOr<Secret> secret_from_bytes(std::string_view bytes);
std::string to_bytes(const Secret& secret);

Secret random_secret();
Nonce random_nonce();

// Whether the text, SECRET or SECRET.FINGERPRINT, shows this secret. Compares in constant time.
bool is_secret(std::string_view text, const Secret& secret);

// HKDF with SHA-256 (RFC 5869), first 32 bytes.
Secret hkdf(std::string_view key, std::string_view salt, std::string_view info);

}  // namespace rayo::rpc
