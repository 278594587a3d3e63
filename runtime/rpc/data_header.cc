#include "runtime/rpc/data_header.h"

#include <algorithm>
#include <cstring>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "runtime/base/check.h"

namespace rayo::rpc {
namespace {

constexpr size_t kSigned = 40;
constexpr uint8_t kFlagTls = 1;
constexpr size_t kBytesPerNonce = 64;  // a node of the hash set with its allocation and bucket

std::array<uint8_t, 24> tag_of(const DataHeader& header, const Secret& key) {
  DataHeaderBytes bytes = encode(header);
  std::array<uint8_t, 32> mac{};
  unsigned size = 0;
  const auto* done =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes.data(), kSigned, mac.data(), &size);
  RAYO_CHECK(done != nullptr && size == mac.size(), "SHA-256 is built into the OpenSSL we link");
  std::array<uint8_t, 24> tag;
  std::copy_n(mac.begin(), tag.size(), tag.begin());
  return tag;
}

}  // namespace

DataHeader make_data_header(LinkKind kind, bool tls, const std::array<uint8_t, 16>& target, const LinkKeys& keys) {
  DataHeader header{kind, tls, target, random_nonce(), {}};
  header.tag = tag_of(header, keys.header_key);
  return header;
}

DataHeaderBytes encode(const DataHeader& header) {
  DataHeaderBytes bytes{};
  std::copy(kDataMagic.begin(), kDataMagic.end(), bytes.begin());
  bytes[4] = kDataHeaderVersion;
  bytes[5] = static_cast<uint8_t>(header.kind);
  bytes[6] = header.tls ? kFlagTls : 0;
  std::copy(header.target.begin(), header.target.end(), bytes.begin() + 8);
  std::copy(header.nonce.begin(), header.nonce.end(), bytes.begin() + 24);
  std::copy(header.tag.begin(), header.tag.end(), bytes.begin() + kSigned);
  return bytes;
}

std::optional<DataHeader> parse_data_header(std::span<const uint8_t, kDataHeaderBytes> bytes) {
  if (!std::equal(kDataMagic.begin(), kDataMagic.end(), bytes.begin()) || bytes[4] != kDataHeaderVersion) return {};
  if (bytes[5] < static_cast<uint8_t>(LinkKind::kJoin) || bytes[5] > static_cast<uint8_t>(LinkKind::kDriver)) return {};
  if ((bytes[6] & ~kFlagTls) != 0 || bytes[7] != 0) return {};
  DataHeader header;
  header.kind = static_cast<LinkKind>(bytes[5]);
  header.tls = (bytes[6] & kFlagTls) != 0;
  if (!header.tls && (header.kind == LinkKind::kJoin || header.kind == LinkKind::kDriver)) return {};
  std::copy_n(bytes.begin() + 8, header.target.size(), header.target.begin());
  std::copy_n(bytes.begin() + 24, header.nonce.size(), header.nonce.begin());
  std::copy_n(bytes.begin() + kSigned, header.tag.size(), header.tag.begin());
  return header;
}

bool verify(const DataHeader& header, const LinkKeys& keys) {
  auto expected = tag_of(header, keys.header_key);
  return CRYPTO_memcmp(expected.data(), header.tag.data(), expected.size()) == 0;
}

size_t NonceCache::Hash::operator()(const Nonce& nonce) const {
  size_t word;  // a verified nonce is random: any eight bytes spread well
  std::memcpy(&word, nonce.data(), sizeof word);
  return word;
}

NonceCache::NonceCache(size_t budget_bytes, base::Duration keep)
    : half_(std::max<size_t>(1, budget_bytes / 2 / kBytesPerNonce)), keep_(keep) {}

bool NonceCache::admit(const Nonce& nonce, base::TimePoint now) {
  turn(now);
  if (young_.contains(nonce) || old_.contains(nonce)) return false;
  young_.insert(nonce);
  return true;
}

size_t NonceCache::bytes() const { return (young_.size() + old_.size()) * kBytesPerNonce; }

// A nonce stays young for up to `keep` and old for as long again, so it is known for `keep` at least.
void NonceCache::turn(base::TimePoint now) {
  if (young_.size() < half_ && now - turned_ < keep_) return;
  old_ = now - turned_ >= 2 * keep_ ? Set() : std::move(young_);
  young_.clear();
  turned_ = now;
}

}  // namespace rayo::rpc
